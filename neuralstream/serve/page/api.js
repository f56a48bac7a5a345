// @ts-check
/** Asks the service. Token and user are this browser tab's, and gone with it. */

/**
 * @typedef {{role: string, text: string, speaker?: string | null}} Part
 * @typedef {{turn_id: string, session_id: string, index: number | null, created_at: string | null, parts: Part[]}} Turn
 * @typedef {{gem_id: string, content: string, source: {session_id: string, date: string, turn_range: string},
 *   source_turns: string[], evidence: string[], created_at: string, topics: string[], tags: string[],
 *   importance: number, confidence: number, entities: string[], valid_from: string | null, valid_until: string | null,
 *   supersedes: string[], merged: string[], status: "active" | "superseded", model: string, prompt: string}} Gem
 * @typedef {{id: string, kind: "turn" | "gem", score: number, signals: Record<string, number>, turn: Turn | null,
 *   gem: Gem | null}} Hit
 * @typedef {{gem: Gem, replaced_by: string[], evidence: Turn[]}} Version
 * @typedef {{session_id: string, turns: number, gems: number, undistilled: number, first_at: string | null,
 *   last_at: string | null}} Session
 * @typedef {{trigger: string | null, turns: Turn[], gems: Gem[]}} Batch
 * @typedef {{name: string, gems: Gem[], turns: Turn[], neighbours: {name: string, together: number}[]}} Entity
 * @typedef {{what: string, turns: number, gems: number, sessions: number, buffered: number, vectors: number,
 *   answers: number, rewritten: string[], checks: Record<string, boolean>, proved: boolean}} Forgotten
 * @typedef {{user_id: string, turns: number, gems: number, sessions: number, undistilled: number, unindexed: number,
 *   dead_letters: number}} Status
 */

/** What the service refused, in its own words. */
export class Refused extends Error {
  /**
   * @param {number} status of the answer; 0: there was none
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const access = {
  get token() {
    return sessionStorage.getItem("token") ?? "";
  },
  get user() {
    return sessionStorage.getItem("user") ?? "";
  },
  /**
   * @param {string} token
   * @param {string} user
   */
  set(token, user) {
    sessionStorage.setItem("token", token);
    sessionStorage.setItem("user", user);
  },
};

/**
 * Ask for something that changes nothing.
 *
 * @param {string} path
 * @param {Record<string, string | number | boolean>} query
 */
export function get(path, query = {}) {
  return ask("GET", path, query);
}

/**
 * Send something.
 *
 * @param {"POST" | "PATCH"} method
 * @param {string} path
 * @param {object} body
 */
export function send(method, path, body) {
  return ask(method, path, {}, body);
}

/** @param {string} path */
export function remove(path) {
  return ask("DELETE", path, {});
}

/**
 * @param {string} method
 * @param {string} path
 * @param {Record<string, string | number | boolean>} query
 * @param {object} [body]
 * @returns {Promise<any>}
 */
async function ask(method, path, query, body) {
  // A token stands for its user.
  const user = access.token || !access.user ? {} : { user_id: access.user };
  /** @type {Record<string, string>} */
  const headers = access.token ? { Authorization: `Bearer ${access.token}` } : {};
  if (body) headers["Content-Type"] = "application/json";
  const asked = new URLSearchParams(Object.entries(body ? query : { ...query, ...user }).map(([k, v]) => [k, `${v}`]));
  let response;
  try {
    response = await fetch(asked.size ? `${path}?${asked}` : path, {
      method,
      headers,
      body: body ? JSON.stringify({ ...body, ...user }) : undefined,
      credentials: "omit",
    });
  } catch {
    throw new Refused(0, "The service does not answer. Is it still running?");
  }
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw new Refused(response.status, answer?.error?.message ?? `${response.status} ${response.statusText}`);
  return answer;
}
