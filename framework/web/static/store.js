// The page's copy of the cluster's state. The event stream reports changed jobs,
// which are then requested. It also reports that some agent or GPU has changed:
// the lists of them are requested shortly after, and periodically for changes
// without events, but not often, because the lists are expensive for the master.
import { Problem, answered, events, get, path } from './api.js';

const second = 1000;
const silence = 40 * second; // the scheduler sends something every 15 s
const settle = 300; // events come in bursts: collect them before a request
const spread = 3 * second; // spreads the requests of all pages after a change
const seldom = 10 * second; // least interval between requests for agents and GPUs
const few = 25; // up to so many jobs are requested one by one
const newestEnded = 200;
const keptEnded = 1000;

export class Store {
  jobs = new Map(); // live jobs, and those that have ended while the page is open
  agents = [];
  gpus = [];
  queue = null;
  roles = null;
  health = null;
  streaming = false;
  trouble = ''; // why there is no stream
  denied = false;
  signing = false; // whether a new token is being tried
  loads = 0; // number of complete loads
  noAgents = ''; // why the list of agents is not available
  focus = ''; // name of the job whose page is open
  wanted = new Set(); // lists that are shown: queue, roles
  missing = new Set(); // lists that this scheduler does not provide to the user

  #listeners = new Set();
  #telling = false;
  #dirty = new Set();
  #early = null; // events received during a load
  #flushing = false;
  #again = new Set(); // lists that were requested less than 2 s ago
  #signal = null; // abort signal of the present stream
  #listed = 0; // time of the last request for agents
  #took = 0; // duration of that request
  #due = 0; // timer of the next request after an event

  // watch calls listener now and after changes, and returns a function that stops it.
  watch(listener) {
    this.#listeners.add(listener);
    listener();
    return () => this.#listeners.delete(listener);
  }

  changed() {
    if (this.#telling) return;
    this.#telling = true;
    setTimeout(() => {
      this.#telling = false;
      for (const listener of this.#listeners) listener();
    }, 100);
  }

  // run follows the event stream and reconnects forever.
  async run() {
    for (let tries = 0; ; tries++) {
      try {
        await this.#follow(() => { tries = 0; });
        this.#down('the scheduler ended the stream');
      } catch (err) {
        this.#down(err.message);
        this.denied = err instanceof Problem && err.status === 401;
      }
      this.signing = false;
      this.changed();
      await this.#pause(tries);
    }
  }

  // retry ends the delay before the next attempt.
  retry = () => {};

  #pause(tries) {
    const limit = Math.min(30 * second, second * 2 ** tries);
    return new Promise((resume) => {
      const timer = setTimeout(resume, limit / 2 + Math.random() * limit / 2);
      this.retry = () => { clearTimeout(timer); resume(); };
    });
  }

  #down(why) {
    this.streaming = false;
    this.trouble = why;
  }

  async #follow(connected) {
    const stop = new AbortController();
    let watchdog;
    const alive = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => stop.abort(new Error('nothing was heard for 40 s')), silence);
      if (this.streaming) return;
      this.streaming = true;
      this.denied = false;
      this.signing = false;
      connected();
      this.#load(stop.signal).catch((err) => stop.abort(err));
    };
    this.#early = [];
    this.#signal = stop.signal;
    const slow = setInterval(() => { if (!document.hidden) this.hardware(); }, (50 + 20 * Math.random()) * second);
    try {
      await events('v1/events?state=live&inventory=true', stop.signal, (ev, name) => this.#hear(ev, name), alive);
    } catch (err) {
      throw stop.signal.aborted ? stop.signal.reason : err;
    } finally {
      clearTimeout(watchdog);
      clearInterval(slow);
      stop.abort();
    }
  }

  // #load requests everything and then applies the events received meanwhile.
  async #load(signal) {
    this.missing.clear();
    const [list] = await Promise.all([get('v1/jobs?state=live', signal), this.#hardware(signal), this.#health(signal)]);
    for (const name of this.#take(list.jobs)) this.jobs.delete(name); // a job's page requests it again
    this.loads++;
    const early = this.#early;
    this.#early = null;
    for (const ev of early) this.#apply(ev);
    for (const what of this.wanted) this.#more(what);
    this.changed();
  }

  async #health(signal) {
    this.health = await get('healthz', signal);
  }

  async #hardware(signal) {
    const began = Date.now();
    this.#listed = began;
    try {
      const [agents, gpus] = await Promise.all([get('v1/agents', signal), get('v1/gpus', signal)]);
      this.agents = agents.agents;
      this.gpus = gpus.gpus;
      this.noAgents = '';
    } catch (err) {
      if (signal.aborted) throw err;
      this.noAgents = err.message; // the master does not respond; the jobs are still known
    }
    this.#took = Date.now() - began;
    this.changed();
  }

  // hardware requests agents, GPUs and health again.
  hardware() {
    const signal = this.#signal;
    if (!this.streaming) return;
    Promise.all([this.#hardware(signal), this.#health(signal)]).catch(() => {}); // the stream reports it
  }

  #hear(ev, name) {
    if (name === 'inventory') this.#restock();
    else if (!name) this.#apply(ev);
  }

  // #restock requests agents and GPUs soon, at a random time so that pages do not
  // synchronize, and less often the longer the responses take.
  #restock() {
    if (this.#due || document.hidden) return; // a page that is shown again requests them
    const now = Date.now();
    const at = Math.max(now, this.#listed + Math.max(seldom, 60 * this.#took)) + spread * Math.random();
    this.#due = setTimeout(() => {
      this.#due = 0;
      if (!document.hidden) this.hardware();
    }, at - now);
  }

  #apply(ev) {
    if (this.#early) {
      this.#early.push(ev);
      return;
    }
    const task = this.jobs.get(ev.job)?.tasks.find((t) => t.id === ev.task);
    if (task) {
      if (task.state === ev.state || Date.parse(task.changed) > Date.parse(ev.time)) return;
      task.state = ev.state;
      task.message = ev.message ?? '';
      task.changed = ev.time;
      this.changed();
    }
    this.#dirty.add(ev.job);
    this.#flush();
  }

  // #flush requests the changed jobs repeatedly until none is left.
  async #flush() {
    if (this.#flushing) return;
    this.#flushing = true;
    let rest = settle;
    while (this.#dirty.size > 0 && this.streaming) {
      await new Promise((resume) => setTimeout(resume, rest));
      const names = [...this.#dirty];
      this.#dirty.clear();
      if (this.jobs.get(this.focus)?.waits && !names.includes(this.focus)) names.push(this.focus);
      const began = Date.now();
      try {
        await (names.length > few ? this.#list() : this.#each(names));
      } catch {
        names.forEach((name) => this.#dirty.add(name)); // the stream reports the reason
      }
      rest = Math.max(settle, 4 * (Date.now() - began)); // reduces the load of a busy scheduler
      this.#forget();
      if (this.#strangers() && Date.now() - this.#listed > seldom) this.hardware();
      for (const what of this.wanted) this.#more(what);
      this.changed();
    }
    this.#flushing = false;
  }

  async #list() {
    const { jobs } = await get('v1/jobs?state=live', this.#signal);
    const over = this.#take(jobs);
    for (const name of over.splice(newestEnded)) this.jobs.delete(name);
    await this.#each(over);
  }

  // #take stores the live jobs and returns the names of those that are no longer live.
  #take(live) {
    const names = new Set(live.map((j) => j.spec.name));
    const over = [...this.jobs.values()].filter((j) => !j.terminal && !names.has(j.spec.name)).map((j) => j.spec.name);
    for (const job of live) this.jobs.set(job.spec.name, job);
    return over;
  }

  // #strangers reports whether a task is on an agent that is not in the list.
  #strangers() {
    const known = new Set(this.agents.map((a) => a.id));
    return [...this.jobs.values()].some((j) => !j.terminal && j.tasks.some((t) => t.agent_id && !known.has(t.agent_id)));
  }

  // #forget limits how many ended jobs the page stores.
  #forget() {
    const ended = [...this.jobs.values()].filter((j) => j.terminal && j.spec.name !== this.focus);
    for (const job of ended.slice(0, -keptEnded)) this.jobs.delete(job.spec.name);
  }

  async #each(names) {
    const left = [...names];
    const one = async () => {
      for (let name = left.pop(); name !== undefined; name = left.pop()) await this.job(name);
    };
    await Promise.all([one(), one(), one()]);
  }

  // job requests one job. It removes a job that does not exist and returns undefined.
  async job(name) {
    try {
      const job = await get(`v1/jobs/${path(name)}`);
      this.jobs.set(name, job);
      this.changed();
      return job;
    } catch (err) {
      if (!(err instanceof Problem) || err.status !== 404) throw err;
      this.jobs.delete(name);
      this.changed();
      return undefined;
    }
  }

  // ended requests the newest ended jobs.
  async ended() {
    const { jobs } = await get(`v1/jobs?state=ended&order=newest&limit=${newestEnded}`);
    for (const job of jobs) this.jobs.set(job.spec.name, job);
    this.changed();
  }

  // want keeps the queue or the roles up to date until the returned function is called.
  want(what) {
    this.wanted.add(what);
    if (this.loads > 0) this.#more(what);
    return () => this.wanted.delete(what);
  }

  // #more requests a list, at most every 2 s.
  async #more(what) {
    if (this.missing.has(what) || this.#again.has(what)) return;
    this.#again.add(what);
    try {
      const body = await get(`v1/${what}`, this.#signal);
      this[what] = what === 'queue' ? body.jobs : body.roles;
    } catch (err) {
      if (err instanceof Problem && (err.status === 404 || err.status === 403)) this.missing.add(what);
    }
    this.changed();
    setTimeout(() => this.#again.delete(what), 2 * second);
  }

  // age is the age of a standby's responses, in seconds; null if they are current.
  get age() {
    return answered.age;
  }
}
