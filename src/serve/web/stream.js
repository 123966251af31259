// Server-sent events over fetch: unlike EventSource it sees why it was refused, and reads no faster than it is used.

const FIRST_REST_MS = 1000;
const LONGEST_REST_MS = 10_000;

/** The server refused: it wants a token, or has another reason, in a sentence. */
export class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

async function read(path, signal, take) {
  const answer = await fetch(path, { signal, headers: { Accept: "text/event-stream" } });
  if (!answer.ok) throw new Refused(answer.status, (await answer.text()).trim());
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = value.split("\n\n");
    waiting.push(parts[0]);
    for (const part of parts.slice(1)) {
      takeEvent(waiting.join(""), take);
      waiting = [part];
    }
  }
}

function takeEvent(text, take) {
  const event = /^event: (\w+)\ndata: (.*)$/s.exec(text);
  if (event) take(event[1], JSON.parse(event[2]));
}

/**
 * Reads a stream until the signal aborts, again and again when it breaks.
 * `take(kind, data)` gets what it says, `say(sentence)` how it stands: empty while it works.
 */
export async function follow(path, signal, take, say) {
  let rest = FIRST_REST_MS;
  while (!signal.aborted) {
    try {
      await read(path, signal, (kind, data) => {
        rest = FIRST_REST_MS;
        say("");
        take(kind, data);
      });
      say("the server ended the stream; asking again");
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && error.status < 500) throw error;
      say(error instanceof Refused ? error.message : "no connection to the server; asking again");
    }
    await new Promise((done) => setTimeout(done, rest));
    rest = Math.min(rest * 2, LONGEST_REST_MS);
  }
}
