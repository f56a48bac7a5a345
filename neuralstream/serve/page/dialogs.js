// @ts-check
/** What changes memory asks first, and says afterwards what it did. */

import { access, remove, send } from "./api.js";
import { announce, h, plural, to } from "./dom.js";

/** @import { Forgotten, Gem } from "./api.js" */

/** @param {Gem} gem */
export function correctGem(gem) {
  const text = /** @type {HTMLTextAreaElement} */ (h("textarea", { id: "correction", rows: 4, required: true }));
  text.value = gem.content;
  open({
    title: "Correct this gem",
    body: [
      h("label", { for: "correction" }, "What it should say"),
      text,
      h("p.note", {}, "The new version replaces this one, which stays in the history."),
    ],
    button: "Save correction",
    act: async () => {
      const corrected = await send("PATCH", `/v1/gems/${encodeURIComponent(gem.gem_id)}`, { content: text.value });
      announce("Corrected.");
      location.hash = to("gem", corrected.gem_id);
      return null;
    },
  });
}

/** @param {Gem} gem */
export function forgetGem(gem) {
  open({
    title: "Forget this gem?",
    body: [
      h("blockquote", {}, gem.content),
      h("p", {}, "It is removed everywhere, with what merged into it, and cannot be brought back."),
      h("p.note", {}, "The turns it came from stay and can be found. Forget the session to remove those too."),
    ],
    button: "Forget it",
    danger: true,
    act: async () => proof(await remove(`/v1/gems/${encodeURIComponent(gem.gem_id)}`)),
    after: "#/",
  });
}

/**
 * @param {string} id
 * @param {number} turns
 */
export function forgetSession(id, turns) {
  open({
    title: "Forget this session?",
    body: [
      h("blockquote", {}, id),
      h("p", {}, `Its ${plural(turns, "turn")} and every gem of them are removed everywhere and cannot be brought back.`),
    ],
    button: "Forget it",
    danger: true,
    act: async () => proof(await send("POST", "/v1/forget", { session_id: id })),
    after: "#/sessions",
  });
}

/**
 * Token and user of this tab.
 *
 * @param {string} reason why it is asked for; empty: because somebody wanted to
 * @param {() => unknown} done
 */
export function askAccess(reason, done) {
  const token = input("token", "password", access.token);
  const user = input("user", "text", access.user);
  open({
    title: "Access",
    body: [
      reason ? h("p", { role: "alert" }, reason) : null,
      h("label", { for: "token" }, "Token"),
      token,
      h("label", { for: "user" }, "User, where the service asks for no token"),
      user,
      h("p.note", {}, "Kept in this tab only, until it is closed."),
    ],
    button: "Use",
    act: async () => {
      access.set(token.value.trim(), user.value.trim());
      done();
      return null;
    },
  });
}

/**
 * What was removed, and what was asked again to prove it.
 *
 * @param {Forgotten} done
 */
function proof(done) {
  const removed = [
    plural(done.gems, "gem"),
    plural(done.turns, "turn"),
    plural(done.vectors, "vector"),
    plural(done.answers, "recorded answer"),
  ].join(", ");
  const verdict = done.proved ? "Everything was asked again, and nothing was found." : "Something was found again.";
  announce(`Removed ${removed}. ${verdict}`);
  return [
    h("p", {}, "Removed: ", h("b", {}, removed), "."),
    h("p", {}, verdict),
    h(
      "ul.checks",
      {},
      Object.entries(done.checks).map(([what, gone]) => h("li", { class: gone ? "gone" : "found" }, `${what}: ${gone ? "gone" : "still there"}`)),
    ),
    done.rewritten.map((line) => h("p.note", {}, line)),
  ].flat();
}

/**
 * A dialog with one thing to do. Escape and Cancel leave all as it is.
 *
 * @param {{title: string, body: (Node | null)[], button: string, danger?: boolean, act: () => Promise<Node[] | null>,
 *   after?: string}} what act: what it did, or null where nothing is to be said; after: where to go once it is read
 */
function open({ title, body, button, danger = false, act, after }) {
  const wrong = h("p.wrong", { role: "alert" });
  const doIt = /** @type {HTMLButtonElement} */ (h("button", { type: "submit", class: danger ? "danger" : "main" }, button));
  const cancel = h("button.quiet", { type: "button", click: () => dialog.close() }, "Cancel");
  const inside = h("div", {}, body, wrong);
  const buttons = h("p.actions", {}, cancel, doIt);
  const heading = h("h2", { id: "dialog-title" }, title);
  const form = h("form", { submit }, heading, inside, buttons);
  const dialog = /** @type {HTMLDialogElement} */ (
    h("dialog", { "aria-labelledby": "dialog-title", close: () => dialog.remove() }, form)
  );

  /** @param {SubmitEvent} event */
  async function submit(event) {
    event.preventDefault();
    doIt.disabled = true;
    wrong.textContent = "";
    try {
      const said = await act();
      if (said === null) dialog.close();
      else if (dialog.open) conclude(said);
      // Closed too late to stop it: what was shown is gone all the same.
      else if (after) location.hash = after;
    } catch (error) {
      wrong.textContent = error instanceof Error ? error.message : String(error);
    } finally {
      doIt.disabled = false;
    }
  }

  /** @param {Node[]} said */
  function conclude(said) {
    heading.textContent = "Forgotten";
    inside.replaceChildren(...said);
    buttons.replaceChildren(h("button.main", { type: "button", click: () => dialog.close() }, "Close"));
    heading.tabIndex = -1;
    heading.focus();
    // However it is closed, what it was about is gone.
    if (after) dialog.addEventListener("close", () => (location.hash = after));
  }

  document.body.append(dialog);
  dialog.showModal();
}

/**
 * @param {string} id
 * @param {string} type
 * @param {string} value
 */
function input(id, type, value) {
  const made = /** @type {HTMLInputElement} */ (h("input", { id, type, autocomplete: "off", spellcheck: "false" }));
  made.value = value;
  return made;
}
