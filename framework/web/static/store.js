// What the page knows of the cluster, and how it keeps knowing: the stream of
// events says which jobs have changed, and those are asked for again. Of agents
// and GPUs it says that something has: those are asked for soon after, and now
// and then for what no event tells, but not often, since it costs the master.
import { Problem, answered, events, get, path } from './api.js';

const second = 1000;
const silence = 40 * second; // the scheduler says something each 15 s
const settle = 300; // events come in bursts: so long, one answer does for all
const spread = 3 * second; // in which all pages ask once something has changed
const seldom = 10 * second; // between two questions for agents and GPUs
const few = 25; // jobs that are asked for one by one
const newestEnded = 200;
const keptEnded = 1000;

export class Store {
  jobs = new Map(); // live ones, and those that ended while the page was open
  agents = [];
  gpus = [];
  queue = null;
  roles = null;
  health = null;
  streaming = false;
  trouble = ''; // why it is not
  denied = false;
  signing = false; // a token is being tried
  loads = 0; // counts them
  noAgents = ''; // why the master does not tell its agents
  focus = ''; // the job whose waiting is looked at
  wanted = new Set(); // what is on view of: queue, roles
  missing = new Set(); // what this scheduler does not tell, or not to us

  #listeners = new Set();
  #telling = false;
  #dirty = new Set();
  #early = null; // events while all is being loaded
  #flushing = false;
  #again = new Set(); // paths whose next asking is due
  #signal = null; // of the present stream
  #listed = 0; // when agents were asked for last
  #took = 0; // how long that took
  #due = 0; // the timer of the next time, where an event said so

  // watch calls back after changes, soon, and at once; it returns how to stop.
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

  // run follows the scheduler for ever.
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

  // retry ends the pause before the next try.
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

  // #load asks for everything, and then applies what came in between.
  async #load(signal) {
    this.missing.clear();
    const [list] = await Promise.all([get('v1/jobs?state=live', signal), this.#hardware(signal), this.#health(signal)]);
    for (const name of this.#take(list.jobs)) this.jobs.delete(name); // who shows it asks again
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
      this.noAgents = err.message; // the master does not answer: jobs are still known
    }
    this.#took = Date.now() - began;
    this.changed();
  }

  // hardware asks for agents, GPUs and health anew.
  hardware() {
    const signal = this.#signal;
    if (!this.streaming) return;
    Promise.all([this.#hardware(signal), this.#health(signal)]).catch(() => {}); // the stream says so
  }

  #hear(ev, name) {
    if (name === 'inventory') this.#restock();
    else if (!name) this.#apply(ev);
  }

  // #restock asks for agents and GPUs soon: not when all other pages do, and seldom, the
  // more so the longer the answers take.
  #restock() {
    if (this.#due || document.hidden) return; // who comes back to the page asks
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

  // #flush asks for the jobs that have changed, again and again until none has.
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
        names.forEach((name) => this.#dirty.add(name)); // the stream says why
      }
      rest = Math.max(settle, 4 * (Date.now() - began)); // a busy scheduler is asked less
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

  // #take takes in the live jobs, and names those that live no more.
  #take(live) {
    const names = new Set(live.map((j) => j.spec.name));
    const over = [...this.jobs.values()].filter((j) => !j.terminal && !names.has(j.spec.name)).map((j) => j.spec.name);
    for (const job of live) this.jobs.set(job.spec.name, job);
    return over;
  }

  // #strangers tells whether a task is on an agent that no list had.
  #strangers() {
    const known = new Set(this.agents.map((a) => a.id));
    return [...this.jobs.values()].some((j) => !j.terminal && j.tasks.some((t) => t.agent_id && !known.has(t.agent_id)));
  }

  // #forget bounds how many ended jobs a page that stays open remembers.
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

  // job asks for one job. One that is not there is forgotten, and undefined.
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

  // ended asks for the jobs that ended, the newest of them.
  async ended() {
    const { jobs } = await get(`v1/jobs?state=ended&order=newest&limit=${newestEnded}`);
    for (const job of jobs) this.jobs.set(job.spec.name, job);
    this.changed();
  }

  // want keeps the queue or the roles up to date until it is told to stop.
  want(what) {
    this.wanted.add(what);
    if (this.loads > 0) this.#more(what);
    return () => this.wanted.delete(what);
  }

  // #more asks for what is wanted, each 2 s at most.
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

  // age is how many seconds old a standby's answers are; null is now.
  get age() {
    return answered.age;
  }
}
