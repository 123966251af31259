// Server-sent events over fetch: unlike EventSource it sees why it was refused, and reads no faster than it is used.

const FIRST_REST_MS = 1000;
const LONGEST_REST_MS = 10_000;
/** A connection that says nothing for so long is dead, and for so many of the server's ticks. */
const SILENCE_MS = 15_000;
const SILENT_TICKS = 3;

/** The server refused: it wants a token, or has another reason, in a sentence. */
export class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

/** Cuts a stream into its events, wherever it is split between two reads. */
class Cutter {
  #pieces = [];
  #end = "";

  /** The events that this piece completes. */
  cut(piece) {
    const parts = (this.#end + piece).split("\n\n");
    const rest = parts.pop();
    // It may be the first half of the blank line that ends an event.
    this.#end = rest.endsWith("\n") ? "\n" : "";
    const events = parts.map((part, at) => (at === 0 ? this.#pieces.join("") + part : part));
    if (events.length) this.#pieces = [];
    this.#pieces.push(rest.slice(0, rest.length - this.#end.length));
    return events;
  }
}

/** Ends a connection that is silent for too long, as one whose other end is gone is forever. */
class Patience {
  #silence_ms = SILENCE_MS;
  #end = new AbortController();

  constructor(signal) {
    signal.addEventListener("abort", () => this.stop(), { signal: this.#end.signal });
    this.renew();
  }

  get signal() {
    return this.#end.signal;
  }

  /** Something came: a part of a large frame too. */
  renew() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#end.abort(), this.#silence_ms);
  }

  /** A server that speaks rarely is silent for longer. */
  learn(status) {
    if (status) this.#silence_ms = Math.max(SILENT_TICKS * status.refresh_ms, SILENCE_MS);
  }

  stop() {
    clearTimeout(this.timer);
    this.#end.abort();
  }
}

async function read(path, signal, take) {
  const patience = new Patience(signal);
  try {
    const answer = await fetch(path, { signal: patience.signal, headers: { Accept: "text/event-stream" } });
    if (!answer.ok) throw new Refused(answer.status, (await answer.text()).trim());
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    const cutter = new Cutter();
    const hear = (kind, data) => {
      patience.learn(data.status);
      take(kind, data);
    };
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      for (const event of cutter.cut(value)) takeEvent(event, hear);
      patience.renew();
    }
  } finally {
    patience.stop();
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
