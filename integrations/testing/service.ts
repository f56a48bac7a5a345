/** The running service, and a stand-in for it that fails as told. */

import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const JSON_TYPE = { "content-type": "application/json" };
const REPOSITORY = fileURLToPath(new URL("../..", import.meta.url));

/** `neuralstream serve` with a memory of its own. */
export class Service {
  readonly url: string;
  readonly #port: number;
  readonly #home = mkdtempSync(join(tmpdir(), "neuralstream-host-"));
  #process: ChildProcess | undefined;

  private constructor(port: number) {
    this.#port = port;
    this.url = `http://127.0.0.1:${port}`;
  }

  /** A service that does not run yet, at an address that is free. */
  static async reserve(): Promise<Service> {
    const server = createServer();
    const port = await listen(server, 0);
    await close(server);
    return new Service(port);
  }

  /** Resolves when it answers and has its embedder loaded; rejects with what it printed where it ends before. */
  async start(): Promise<void> {
    const venv = join(REPOSITORY, ".venv/bin/python");
    const python = process.env.NEURALSTREAM_TEST_PYTHON ?? (existsSync(venv) ? venv : "python3");
    const command = ["-m", "neuralstream", "--home", this.#home, "serve", "--port", String(this.#port)];
    const child = spawn(python, command, { cwd: this.#home, env: environment() });
    this.#process = child;
    let printed = "";
    await new Promise<void>((resolve, reject) => {
      const read = (data: Buffer) => {
        printed += data.toString();
        if (printed.includes("listening on")) resolve();
      };
      child.stdout.on("data", read);
      child.stderr.on("data", read);
      child.on("error", reject);
      child.on("exit", (code) => reject(new Error(`the service ended with ${code}:\n${printed}`)));
    });
    const question = { method: "POST", headers: JSON_TYPE, body: JSON.stringify({ query: "anything" }) };
    await until(async () => (await fetch(`${this.url}/v1/search`, question)).ok, 300);
  }

  async stop(): Promise<void> {
    const child = this.#process;
    if (child && child.exitCode === null) {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      await ended;
    }
    rmSync(this.#home, { recursive: true, force: true });
  }

  async ask<Answer>(path: string): Promise<Answer> {
    const response = await fetch(this.url + path);
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as Answer;
  }

  /** What is said in the turns of a session, in order: `role: text`. */
  async turns(sessionId: string): Promise<{ turn_id: string; said: string[] }[]> {
    type Thread = { turns: { turn_id: string; parts: { role: string; text: string }[] }[] };
    if ((await this.undistilled(sessionId)) === undefined) return [];
    const { turns } = await this.ask<Thread>(`/v1/sessions/${encodeURIComponent(sessionId)}`);
    return turns.map(({ turn_id, parts }) => ({ turn_id, said: parts.map((part) => `${part.role}: ${part.text}`) }));
  }

  /** A session's undistilled turns; undefined where there is no such session. */
  async undistilled(sessionId: string): Promise<number | undefined> {
    type Listed = { sessions: { session_id: string; undistilled: number }[] };
    const { sessions } = await this.ask<Listed>("/v1/sessions");
    return sessions.find((session) => session.session_id === sessionId)?.undistilled;
  }
}

export interface Asked {
  path: string;
  body: any;
  token: string | undefined;
}

/** Answers like the service, or with a status, or not at all. */
export class StandIn {
  readonly asked: Asked[] = [];
  /** Status of the next answers; "hang" gives none. */
  mode: number | "hang" = 200;
  block = "";
  url = "";
  #server: Server | undefined;

  async start(port = 0): Promise<this> {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        const body = JSON.parse(Buffer.concat(chunks).toString());
        this.asked.push({ path: request.url ?? "", body, token: request.headers.authorization });
        if (this.mode === "hang") return;
        response.writeHead(this.mode, JSON_TYPE);
        response.end(JSON.stringify({ text: this.block }));
      });
    });
    this.url = `http://127.0.0.1:${await listen(this.#server, port)}`;
    return this;
  }

  async stop(): Promise<void> {
    if (this.#server) await close(this.#server);
  }

  to(path: string): Asked[] {
    return this.asked.filter((asked) => asked.path === path);
  }
}

/** Wait until something holds. */
export async function until(holds: () => boolean | Promise<boolean>, seconds = 120): Promise<void> {
  const end = Date.now() + 1000 * seconds;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`did not hold within ${seconds} s: ${holds}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function environment(): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith("NEURALSTREAM_"));
  return { ...Object.fromEntries(own), HF_HUB_OFFLINE: "1", OMP_NUM_THREADS: "1", PYTHONPATH: REPOSITORY };
}

function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", () => resolve((server.address() as AddressInfo).port));
  });
}

function close(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(() => resolve()));
}
