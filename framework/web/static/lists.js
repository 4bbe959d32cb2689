// Lists without events: they are requested while a view shows them, after a change of
// jobs, but not often.
import { Problem, fetchJSON } from './api.js';

const minInterval = 2000; // milliseconds between two requests for a list

// keys are the keys of the lists in the answers.
const keys = { queue: 'jobs', roles: 'roles', schedules: 'schedules', holds: 'holds', notifications: 'notifications' };

export class ShownLists {
  queue = null;
  roles = null;
  schedules = null;
  holds = null; // those of users and roles
  notifications = null; // those that were not delivered
  unavailable = new Map(); // lists that the scheduler does not provide to the user, with the reason

  #shown = new Set();
  #recentlyRequested = new Set();
  #due = new Set(); // those to request once they are not recently requested
  #store;

  constructor(store) {
    this.#store = store;
  }

  // keepUpdated keeps a list up to date until the returned function is called.
  keepUpdated(name) {
    this.#shown.add(name);
    if (this.#store.loads > 0) this.request(name);
    return () => this.#shown.delete(name);
  }

  // refresh requests the shown lists.
  refresh() {
    for (const name of this.#shown) this.request(name);
  }

  clear() {
    Object.assign(this, { queue: null, roles: null, schedules: null, holds: null, notifications: null });
    this.unavailable.clear();
  }

  // isKnown reports whether the list or the reason for its absence was received.
  isKnown(name) {
    return this[name] !== null || this.unavailable.has(name);
  }

  // request requests a list, at most every 2 s unless it is needed now.
  async request(name, now = false) {
    if (this.unavailable.has(name)) return;
    if (this.#recentlyRequested.has(name) && !now) {
      this.#due.add(name);
      return;
    }
    this.#recentlyRequested.add(name);
    try {
      this[name] = (await fetchJSON(`v1/${name}`, this.#store.signal))[keys[name]];
    } catch (err) {
      if (err instanceof Problem && (err.status === 404 || err.status === 403)) this.unavailable.set(name, err.message);
    }
    this.#store.notifyListeners();
    setTimeout(() => {
      this.#recentlyRequested.delete(name);
      if (this.#due.delete(name) && this.#shown.has(name)) this.request(name);
    }, minInterval);
  }
}
