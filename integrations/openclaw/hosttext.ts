/** What OpenClaw writes around a user's words. The service takes the same out of what it keeps. */

const AROUND = [
  // "Sender (untrusted metadata):" and its kin, each over fenced JSON.
  /^[A-Z][\w ]{0,80} \(untrusted(?: metadata|, for context)\):[ \t\r]*\n```(?:json)?[ \t\r]*\n.*?^```[ \t\r]*$\s*/gms,
  // Our own block, where a host has put it into the transcript.
  /<neuralstream-memory\b[^>\n]*>.*?<\/neuralstream-memory>/gis,
  // A leading timestamp, such as "[Sat 2026-02-14 18:49 GMT-3] ".
  /^\s*\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d{4}-\d\d-\d\d \d\d:\d\d[^\]\n]{0,40}\]\s*/g,
  /\[message_id:[^\]\n]*\]/g,
  /\[\[ ?reply_to(?:_current|: ?[^\]\n]*) ?\]\]/g,
];

/** Prompts that no user wrote. */
const PSEUDO_PROMPT =
  /^(?:A new session was started via \/new or \/reset\b|Read HEARTBEAT\.md\b|Pre-compaction memory flush\.|\[cron:)/;

/** The user's words alone; empty where no user spoke. */
export function userWords(prompt: string): string {
  let words = prompt;
  for (const pattern of AROUND) words = words.replace(pattern, "");
  words = words.trim();
  return PSEUDO_PROMPT.test(words) ? "" : words;
}
