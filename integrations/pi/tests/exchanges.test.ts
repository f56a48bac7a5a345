/** A session captured live and read from its file gives the same turns. `tests/integrations/` reads the same file. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { exchanges } from "../exchanges.ts";

const file = (name: string) => readFileSync(new URL(`../../testing/${name}`, import.meta.url), "utf8");

test("exchanges are the turns that the log reader makes of the same entries", () => {
  const entries = file("session.jsonl").trim().split("\n").map((line) => JSON.parse(line));
  const made = exchanges(entries).map(({ id, at, parts }) => ({ turn_id: `s1:${id}`, created_at: at, parts }));
  assert.deepEqual(made, JSON.parse(file("session.turns.json")));
});

test("all but the last exchange are done, and the last where its reply came to an end", () => {
  const entries = file("session.jsonl").trim().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(exchanges(entries).map((exchange) => exchange.done), [true, true, true, true, false]);
  assert.deepEqual(exchanges(entries.slice(0, -1)).map((exchange) => exchange.done), [true, true, true, true]);
});

test("what is said after the end of a reply is an exchange of its own, for the reply was sent by then", () => {
  const reply = (text: string) => ({ role: "assistant", content: text, stopReason: "stop" });
  const messages = [{ role: "user", content: "Restart it." }, reply("Done."), reply("It is up.")];
  const made = exchanges(messages.map((message, place) => ({ id: String(place), message })));
  assert.deepEqual(made.map(({ id, parts }) => [id, parts.at(-1)?.text]), [["0", "Done."], ["2", "It is up."]]);
});
