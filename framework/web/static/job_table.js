// The newest known run of each owner's job. Several owners may have jobs of one name.
import { formatReference, referenceOf } from './reference.js';

export class JobTable {
  user = ''; // who reads the page

  #byName = new Map(); // the jobs of each name, one of each owner; no list is empty
  #size = 0;

  get size() {
    return this.#size;
  }

  * values() {
    for (const jobs of this.#byName.values()) yield* jobs;
  }

  // find returns a run, or for the number 0 the job that the reader means by a name: the reader's job, else one that has
  // not ended, else the newest.
  find(name, run = 0) {
    const jobs = this.#byName.get(name) ?? [];
    if (run) return jobs.find((job) => job.run === run);
    return jobs.find((job) => ownerOf(job) === this.user) ?? jobs.reduce((best, job) => (compareAge(job, best) < 0 ? job : best), jobs[0]);
  }

  // ofOwner returns the job of an owner.
  ofOwner(name, owner) {
    return this.#byName.get(name)?.find((job) => ownerOf(job) === owner);
  }

  // referenceTo returns how the reader names a job: by its name alone, if that means it.
  referenceTo(job) {
    const { name } = job.spec;
    return this.find(name) === job ? name : formatReference(name, job.run);
  }

  // referenceToTask returns how the reader names the job with a name that has a task.
  referenceToTask(name, id) {
    const job = this.#byName.get(name)?.find(({ tasks, attempts = [] }) => [...tasks, ...attempts].some((task) => task.id === id));
    return job ? this.referenceTo(job) : name;
  }

  // store stores a job, unless a newer run of it is known: answers may arrive late.
  store(job) {
    const { name } = job.spec;
    const jobs = this.#byName.get(name);
    const at = jobs?.findIndex((one) => ownerOf(one) === ownerOf(job)) ?? -1;
    if (at >= 0) {
      if (jobs[at].run > job.run) return;
      jobs[at] = job;
      return;
    }
    this.#size++;
    if (jobs) jobs.push(job);
    else this.#byName.set(name, [job]);
  }

  // storeLive stores all live jobs and returns the stored ones that are no longer live.
  storeLive(live) {
    const runs = new Set(live.map(referenceOf));
    const ended = [...this.values()].filter((job) => !job.terminal && !runs.has(referenceOf(job)));
    for (const job of live) this.store(job);
    return ended.filter((job) => this.ofOwner(job.spec.name, ownerOf(job)) === job);
  }

  delete(job) {
    const { name } = job.spec;
    const jobs = this.#byName.get(name) ?? [];
    const rest = jobs.filter((one) => one !== job);
    this.#size -= jobs.length - rest.length;
    if (rest.length > 0) this.#byName.set(name, rest);
    else this.#byName.delete(name);
  }

  clear() {
    this.#byName.clear();
    this.#size = 0;
  }
}

// ownerOf returns the owner of a job, '' if it has none.
export function ownerOf(job) {
  return job.spec.owner ?? '';
}

// compareAge orders jobs of one name: those that have not ended first, then the newest.
function compareAge(a, b) {
  return Number(a.terminal) - Number(b.terminal) || b.run - a.run;
}
