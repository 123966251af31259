// A server that replays a recording, for the tests and the screenshots of the page.

import { spawn } from "node:child_process";

/** Starts the server; `end` stops it. */
export async function serve(program, recording) {
  const options = ["serve", "--listen", "127.0.0.1:0", "--replay", recording, "--refresh", "200ms"];
  const server = spawn(program, options, { stdio: ["ignore", "ignore", "pipe"] });
  const url = await new Promise((found, lost) => {
    let said = "";
    server.stderr.on("data", (text) => {
      said += text;
      const address = /serving (http:\/\/[^,]+),/.exec(said)?.[1];
      if (address) found(address);
    });
    server.on("exit", () => lost(new Error(`the server ended: ${said}`)));
  });
  return { url, end: () => server.kill() };
}
