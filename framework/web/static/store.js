// The page's copy of the cluster's state. The event stream reports changed jobs,
// which are then requested. It also reports that some agent or GPU has changed:
// the lists of them are requested shortly after, and periodically for changes
// without events, but not often, because the lists are expensive for the master.
import { Problem, lastAnswer, streamEvents, fetchJSON, encodePath } from './api.js';

const second = 1000;
const streamTimeout = 40 * second; // the scheduler sends something every 15 s
const batchDelay = 300; // events come in bursts: collect them before a request
const maxJitter = 3 * second; // spreads the requests of all pages after a change
const minListInterval = 10 * second; // least interval between requests for agents and GPUs
const maxSingleRequests = 25; // up to so many jobs are requested one by one
const maxEndedRequested = 200;
const maxEndedKept = 1000;

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
  #notifyPending = false;
  #changedJobs = new Set();
  #earlyEvents = null; // events received during a load
  #refreshing = false;
  #recentlyRequested = new Set(); // lists that were requested less than 2 s ago
  #abortSignal = null; // abort signal of the present stream
  #lastListed = 0; // time of the last request for agents
  #listDuration = 0; // duration of that request
  #refreshTimer = 0; // timer of the next request after an event

  // watch calls listener now and after changes, and returns a function that stops it.
  watch(listener) {
    this.#listeners.add(listener);
    listener();
    return () => this.#listeners.delete(listener);
  }

  notifyListeners() {
    if (this.#notifyPending) return;
    this.#notifyPending = true;
    setTimeout(() => {
      this.#notifyPending = false;
      for (const listener of this.#listeners) listener();
    }, 100);
  }

  // run follows the event stream and reconnects forever.
  async run() {
    for (let tries = 0; ; tries++) {
      try {
        await this.#followStream(() => { tries = 0; });
        this.#markDown('the scheduler ended the stream');
      } catch (err) {
        this.#markDown(err.message);
        this.denied = err instanceof Problem && err.status === 401;
      }
      this.signing = false;
      this.notifyListeners();
      await this.#waitBeforeRetry(tries);
    }
  }

  // retry ends the delay before the next attempt.
  retry = () => {};

  #waitBeforeRetry(tries) {
    const limit = Math.min(30 * second, second * 2 ** tries);
    return new Promise((resume) => {
      const timer = setTimeout(resume, limit / 2 + Math.random() * limit / 2);
      this.retry = () => { clearTimeout(timer); resume(); };
    });
  }

  #markDown(why) {
    this.streaming = false;
    this.trouble = why;
  }

  async #followStream(connected) {
    const stop = new AbortController();
    let watchdog;
    const alive = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => stop.abort(new Error('nothing was received for 40 s')), streamTimeout);
      if (this.streaming) return;
      this.streaming = true;
      this.denied = false;
      this.signing = false;
      connected();
      this.#loadAll(stop.signal).catch((err) => stop.abort(err));
    };
    this.#earlyEvents = [];
    this.#abortSignal = stop.signal;
    const slow = setInterval(() => { if (!document.hidden) this.refreshHardware(); }, (50 + 20 * Math.random()) * second);
    try {
      await streamEvents('v1/events?state=live&inventory=true', stop.signal, (ev, name) => this.#handleEvent(ev, name), alive);
    } catch (err) {
      throw stop.signal.aborted ? stop.signal.reason : err;
    } finally {
      clearTimeout(watchdog);
      clearInterval(slow);
      stop.abort();
    }
  }

  // #loadAll requests everything and then applies the events received meanwhile.
  async #loadAll(signal) {
    this.missing.clear();
    const [list] = await Promise.all([fetchJSON('v1/jobs?state=live', signal), this.#fetchHardware(signal), this.#fetchHealth(signal)]);
    for (const name of this.#storeLiveJobs(list.jobs)) this.jobs.delete(name); // a job's page requests it again
    this.loads++;
    const early = this.#earlyEvents;
    this.#earlyEvents = null;
    for (const ev of early) this.#applyEvent(ev);
    for (const what of this.wanted) this.#fetchList(what);
    this.notifyListeners();
  }

  async #fetchHealth(signal) {
    this.health = await fetchJSON('healthz', signal);
  }

  async #fetchHardware(signal) {
    const began = Date.now();
    this.#lastListed = began;
    try {
      const [agents, gpus] = await Promise.all([fetchJSON('v1/agents', signal), fetchJSON('v1/gpus', signal)]);
      this.agents = agents.agents;
      this.gpus = gpus.gpus;
      this.noAgents = '';
    } catch (err) {
      if (signal.aborted) throw err;
      this.noAgents = err.message; // the master does not respond; the jobs are still known
    }
    this.#listDuration = Date.now() - began;
    this.notifyListeners();
  }

  // refreshHardware requests agents, GPUs and health again.
  refreshHardware() {
    const signal = this.#abortSignal;
    if (!this.streaming) return;
    Promise.all([this.#fetchHardware(signal), this.#fetchHealth(signal)]).catch(() => {}); // the stream reports it
  }

  #handleEvent(ev, name) {
    if (name === 'inventory') this.#scheduleRefresh();
    else if (!name) this.#applyEvent(ev);
  }

  // #scheduleRefresh requests agents and GPUs soon, at a random time so that pages do not
  // synchronize, and less often the longer the responses take.
  #scheduleRefresh() {
    if (this.#refreshTimer || document.hidden) return; // a page that is shown again requests them
    const now = Date.now();
    const at = Math.max(now, this.#lastListed + Math.max(minListInterval, 60 * this.#listDuration)) + maxJitter * Math.random();
    this.#refreshTimer = setTimeout(() => {
      this.#refreshTimer = 0;
      if (!document.hidden) this.refreshHardware();
    }, at - now);
  }

  #applyEvent(ev) {
    if (this.#earlyEvents) {
      this.#earlyEvents.push(ev);
      return;
    }
    const task = this.jobs.get(ev.job)?.tasks.find((t) => t.id === ev.task);
    if (task) {
      if (task.state === ev.state || Date.parse(task.changed) > Date.parse(ev.time)) return;
      task.state = ev.state;
      task.message = ev.message ?? '';
      task.changed = ev.time;
      this.notifyListeners();
    }
    this.#changedJobs.add(ev.job);
    this.#refreshChangedJobs();
  }

  // #refreshChangedJobs requests the changed jobs repeatedly until none is left.
  async #refreshChangedJobs() {
    if (this.#refreshing) return;
    this.#refreshing = true;
    let rest = batchDelay;
    while (this.#changedJobs.size > 0 && this.streaming) {
      await new Promise((resume) => setTimeout(resume, rest));
      const names = [...this.#changedJobs];
      this.#changedJobs.clear();
      if (this.jobs.get(this.focus)?.waits && !names.includes(this.focus)) names.push(this.focus);
      const began = Date.now();
      try {
        await (names.length > maxSingleRequests ? this.#fetchLiveJobs() : this.#fetchJobs(names));
      } catch {
        names.forEach((name) => this.#changedJobs.add(name)); // the stream reports the reason
      }
      rest = Math.max(batchDelay, 4 * (Date.now() - began)); // reduces the load of a busy scheduler
      this.#dropOldEnded();
      if (this.#hasUnknownAgent() && Date.now() - this.#lastListed > minListInterval) this.refreshHardware();
      for (const what of this.wanted) this.#fetchList(what);
      this.notifyListeners();
    }
    this.#refreshing = false;
  }

  async #fetchLiveJobs() {
    const { jobs } = await fetchJSON('v1/jobs?state=live', this.#abortSignal);
    const over = this.#storeLiveJobs(jobs);
    for (const name of over.splice(maxEndedRequested)) this.jobs.delete(name);
    await this.#fetchJobs(over);
  }

  // #storeLiveJobs stores the live jobs and returns the names of those that are no longer live.
  #storeLiveJobs(live) {
    const names = new Set(live.map((j) => j.spec.name));
    const over = [...this.jobs.values()].filter((j) => !j.terminal && !names.has(j.spec.name)).map((j) => j.spec.name);
    for (const job of live) this.jobs.set(job.spec.name, job);
    return over;
  }

  // #hasUnknownAgent reports whether a task is on an agent that is not in the list.
  #hasUnknownAgent() {
    const known = new Set(this.agents.map((a) => a.id));
    return [...this.jobs.values()].some((j) => !j.terminal && j.tasks.some((t) => t.agent_id && !known.has(t.agent_id)));
  }

  // #dropOldEnded limits how many ended jobs the page stores.
  #dropOldEnded() {
    const ended = [...this.jobs.values()].filter((j) => j.terminal && j.spec.name !== this.focus);
    for (const job of ended.slice(0, -maxEndedKept)) this.jobs.delete(job.spec.name);
  }

  async #fetchJobs(names) {
    const left = [...names];
    const one = async () => {
      for (let name = left.pop(); name !== undefined; name = left.pop()) await this.fetchJob(name);
    };
    await Promise.all([one(), one(), one()]);
  }

  // fetchJob requests one job. It removes a job that does not exist and returns undefined.
  async fetchJob(name) {
    try {
      const job = await fetchJSON(`v1/jobs/${encodePath(name)}`);
      this.jobs.set(name, job);
      this.notifyListeners();
      return job;
    } catch (err) {
      if (!(err instanceof Problem) || err.status !== 404) throw err;
      this.jobs.delete(name);
      this.notifyListeners();
      return undefined;
    }
  }

  // fetchEndedJobs requests the newest ended jobs.
  async fetchEndedJobs() {
    const { jobs } = await fetchJSON(`v1/jobs?state=ended&order=newest&limit=${maxEndedRequested}`);
    for (const job of jobs) this.jobs.set(job.spec.name, job);
    this.notifyListeners();
  }

  // keepUpdated keeps the queue or the roles up to date until the returned function is called.
  keepUpdated(what) {
    this.wanted.add(what);
    if (this.loads > 0) this.#fetchList(what);
    return () => this.wanted.delete(what);
  }

  // #fetchList requests a list, at most every 2 s.
  async #fetchList(what) {
    if (this.missing.has(what) || this.#recentlyRequested.has(what)) return;
    this.#recentlyRequested.add(what);
    try {
      const body = await fetchJSON(`v1/${what}`, this.#abortSignal);
      this[what] = what === 'queue' ? body.jobs : body.roles;
    } catch (err) {
      if (err instanceof Problem && (err.status === 404 || err.status === 403)) this.missing.add(what);
    }
    this.notifyListeners();
    setTimeout(() => this.#recentlyRequested.delete(what), 2 * second);
  }

  // age is the age of a standby's responses, in seconds; null if they are current.
  get age() {
    return lastAnswer.age;
  }
}
