// The page's copy of the cluster's state. The event stream reports changed jobs,
// which are then requested. It also reports that some agent or GPU has changed:
// the lists of them are requested shortly after, and periodically for changes
// without events, but not often, because the lists are expensive for the master.
import { Problem, lastResponse, streamEvents, fetchJSON, encodePath } from './api.js';
import { readToken, removeToken } from './session.js';
import { ShownLists } from './lists.js';
import { formatReference, parseRun, referenceOf } from './reference.js';
import { JobTable } from './job_table.js';

const second = 1000;
const streamTimeout = 40 * second; // the scheduler sends something every 15 s
const batchDelay = 300; // events come in bursts: collect them before a request
const maxJitter = 3 * second; // spreads the requests of all pages after a change
const minListInterval = 10 * second; // least interval between requests for agents and GPUs
const maxSingleRequests = 25; // up to so many jobs are requested one by one
const maxEndedRequested = 200;
const maxEndedKept = 1000;

export class Store {
  jobs = new JobTable(); // live jobs, and those that have ended while the page is open
  agents = [];
  gpus = [];
  health = null;
  identity = null; // the answer of whoami: what the user may do; null if it is unknown
  streaming = false;
  streamError = ''; // why there is no stream
  unauthorized = false; // the scheduler requires a token, or another one
  checkingToken = false; // a new token was entered and the scheduler has not responded
  loads = 0; // number of complete loads: one for each connection
  agentsError = ''; // why the list of agents is not available
  openJob = () => undefined; // returns the job whose page is open; it stays in jobs after its end
  lists = new ShownLists(this); // the queue, roles and other lists, while they are shown

  #listeners = new Set();
  #notifyPending = false;
  #changedJobs = new Set(); // runs to request
  #earlyEvents = null; // events received during a load, applied after it; null after that
  #refreshing = false; // #refreshChangedJobs is running
  #abortSignal = null; // aborts with the current stream
  #lastListed = 0; // when agents and GPUs were last requested, in milliseconds
  #listDuration = 0; // how long that request took, in milliseconds
  #refreshTimer = 0; // timer of the next request after an event; 0 if none is due

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
    for (let attempts = 0; ; attempts++) {
      try {
        await this.#followStream(() => { attempts = 0; });
        this.#markDown('the scheduler ended the stream');
      } catch (err) {
        this.#markDown(err.message);
        this.unauthorized = err instanceof Problem && err.status === 401;
        if (this.unauthorized) await this.#fetchIdentity(undefined, { anonymous: true });
      }
      this.checkingToken = false;
      this.notifyListeners();
      await this.#waitBeforeRetry(attempts);
    }
  }

  // endStream ends the stream, so that the page connects again.
  endStream = () => {};

  // retry ends the delay before the next attempt.
  retry = () => {};

  #waitBeforeRetry(attempts) {
    const limit = Math.min(30 * second, second * 2 ** attempts);
    return new Promise((resume) => {
      const timer = setTimeout(resume, limit / 2 + Math.random() * limit / 2);
      this.retry = () => { clearTimeout(timer); resume(); };
    });
  }

  #markDown(reason) {
    this.streaming = false;
    this.streamError = reason;
  }

  async #followStream(onConnected) {
    const controller = new AbortController();
    let watchdog;
    const onInput = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => controller.abort(new Error('nothing was received for 40 s')), streamTimeout);
      if (this.streaming) return;
      this.streaming = true;
      this.unauthorized = false;
      this.checkingToken = false;
      onConnected();
      this.#loadAll(controller.signal).catch((err) => controller.abort(err));
    };
    this.#earlyEvents = [];
    this.#abortSignal = controller.signal;
    this.endStream = () => { controller.abort(new Error('signed out')); this.retry(); };
    const refreshInterval = setInterval(() => {
      if (document.hidden) return;
      this.refreshHardware();
      this.lists.refresh();
    }, (50 + 20 * Math.random()) * second);
    try {
      await streamEvents('v1/events?state=live&inventory=true', controller.signal, (event, name) => this.#handleEvent(event, name), onInput);
    } catch (err) {
      throw controller.signal.aborted ? controller.signal.reason : err;
    } finally {
      clearTimeout(watchdog);
      clearInterval(refreshInterval);
      controller.abort();
    }
  }

  // #loadAll requests everything and then applies the events received meanwhile.
  async #loadAll(signal) {
    this.lists.unavailable.clear();
    const [live] = await Promise.all([fetchJSON('v1/jobs?state=live', signal), this.#fetchHardware(signal), this.#fetchHealth(signal), this.#fetchIdentity(signal)]);
    for (const job of this.jobs.storeLive(live.jobs)) this.jobs.delete(job); // a job's page requests it again
    this.loads++;
    const events = this.#earlyEvents;
    this.#earlyEvents = null;
    for (const event of events) this.#applyEvent(event);
    this.lists.refresh();
    this.notifyListeners();
  }

  async #fetchHealth(signal) {
    this.health = await fetchJSON('healthz', signal);
  }

  // #fetchIdentity requests what the user may do. An earlier version of the scheduler does not
  // answer: the page then only reads.
  async #fetchIdentity(signal, request) {
    this.identity = await fetchJSON('v1/whoami', signal, request).catch(() => null);
    this.jobs.user = this.identity?.user ?? '';
  }

  // signOut ends the session and removes what it has loaded.
  signOut() {
    removeToken();
    this.jobs.clear();
    this.lists.clear();
    Object.assign(this, { agents: [], gpus: [], identity: null, loads: 0 });
    this.endStream();
  }

  // canAct reports whether changes can be requested: only from the leading scheduler, because a
  // standby redirects them to another origin.
  get canAct() {
    return this.streaming && this.health?.role !== 'standby' && this.identity !== null;
  }

  // signal aborts with the current stream.
  get signal() {
    return this.#abortSignal;
  }

  get signedIn() {
    return readToken() !== null;
  }

  async #fetchHardware(signal) {
    const startTime = Date.now();
    this.#lastListed = startTime;
    try {
      const [agents, gpus] = await Promise.all([fetchJSON('v1/agents', signal), fetchJSON('v1/gpus', signal)]);
      this.agents = agents.agents;
      this.gpus = gpus.gpus;
      this.agentsError = '';
    } catch (err) {
      if (signal.aborted) throw err;
      this.agentsError = err.message; // the master does not respond; the jobs are still known
    }
    this.#listDuration = Date.now() - startTime;
    this.notifyListeners();
  }

  // refreshHardware requests agents, GPUs and health again.
  refreshHardware() {
    const signal = this.#abortSignal;
    if (!this.streaming) return;
    Promise.all([this.#fetchHardware(signal), this.#fetchHealth(signal)]).catch(() => {}); // the stream reports it
  }

  #handleEvent(event, name) {
    if (name === 'inventory') this.#scheduleRefresh();
    else if (!name) this.#applyEvent(event);
  }

  // #scheduleRefresh requests agents and GPUs soon, at a random time so that pages do not
  // synchronize, and less often the longer the responses take.
  #scheduleRefresh() {
    if (this.#refreshTimer || document.hidden) return; // a page that is shown again requests them
    const now = Date.now();
    const refreshTime = Math.max(now, this.#lastListed + Math.max(minListInterval, 60 * this.#listDuration)) + maxJitter * Math.random();
    this.#refreshTimer = setTimeout(() => {
      this.#refreshTimer = 0;
      if (!document.hidden) this.refreshHardware();
    }, refreshTime - now);
  }

  #applyEvent(event) {
    if (this.#earlyEvents) {
      this.#earlyEvents.push(event);
      return;
    }
    const task = this.jobs.find(event.job, event.run)?.tasks.find(({ id }) => id === event.task);
    if (task) {
      if (task.state === event.state || Date.parse(task.changed) > Date.parse(event.time)) return;
      task.state = event.state;
      task.message = event.message ?? '';
      task.changed = event.time;
      this.notifyListeners();
    }
    this.#changedJobs.add(formatReference(event.job, event.run));
    this.#refreshChangedJobs();
  }

  // #refreshChangedJobs requests the changed jobs repeatedly until none is left.
  async #refreshChangedJobs() {
    if (this.#refreshing) return;
    this.#refreshing = true;
    let delay = batchDelay;
    while (this.#changedJobs.size > 0 && this.streaming) {
      await new Promise((resume) => setTimeout(resume, delay));
      const open = this.openJob();
      if (open?.waits) this.#changedJobs.add(referenceOf(open));
      const runs = [...this.#changedJobs];
      this.#changedJobs.clear();
      const startTime = Date.now();
      try {
        await (runs.length > maxSingleRequests ? this.#fetchLiveJobs() : this.#fetchJobs(runs));
      } catch {
        runs.forEach((run) => this.#changedJobs.add(run)); // the stream reports the reason
      }
      delay = Math.max(batchDelay, 4 * (Date.now() - startTime)); // reduces the load of a busy scheduler
      this.#dropOldEnded();
      if (this.#hasUnknownAgent() && Date.now() - this.#lastListed > minListInterval) this.refreshHardware();
      this.lists.refresh();
      this.notifyListeners();
    }
    this.#refreshing = false;
  }

  async #fetchLiveJobs() {
    const { jobs } = await fetchJSON('v1/jobs?state=live', this.#abortSignal);
    const ended = this.jobs.storeLive(jobs);
    for (const job of ended.splice(maxEndedRequested)) this.jobs.delete(job);
    await this.#fetchJobs(ended.map(referenceOf));
  }

  // #hasUnknownAgent reports whether a task is on an agent that is not in the list.
  #hasUnknownAgent() {
    const known = new Set(this.agents.map((agent) => agent.id));
    return [...this.jobs.values()].some((job) => !job.terminal && job.tasks.some((task) => task.agent_id && !known.has(task.agent_id)));
  }

  // #dropOldEnded limits how many ended jobs the page stores.
  #dropOldEnded() {
    const ended = [...this.jobs.values()].filter((job) => job.terminal && job !== this.openJob());
    for (const job of ended.slice(0, -maxEndedKept)) this.jobs.delete(job);
  }

  async #fetchJobs(references) {
    const remaining = [...references];
    const fetchNext = async () => {
      for (let reference = remaining.pop(); reference !== undefined; reference = remaining.pop()) await this.fetchJob(reference);
    };
    await Promise.all([fetchNext(), fetchNext(), fetchNext()]);
  }

  // fetchJob requests one job or run. It removes a job that does not exist and returns undefined.
  async fetchJob(reference) {
    try {
      const job = await fetchJSON(`v1/jobs/${encodePath(reference)}`);
      this.jobs.store(job);
      this.notifyListeners();
      return job;
    } catch (err) {
      if (!(err instanceof Problem) || err.status !== 404) throw err;
      const { job: name, run } = parseRun(reference);
      const known = this.jobs.find(name, run);
      if (known) this.jobs.delete(known);
      this.notifyListeners();
      return undefined;
    }
  }

  // fetchEndedJobs requests the newest ended jobs, or those in one of the states.
  async fetchEndedJobs(states = 'ended', limit = maxEndedRequested) {
    const { jobs } = await fetchJSON(`v1/jobs?state=${states}&order=newest&limit=${limit}`);
    for (const job of jobs) this.jobs.store(job);
    this.notifyListeners();
  }

  // age is the age of a standby's responses, in seconds; null if they are current.
  get age() {
    return lastResponse.age;
  }
}
