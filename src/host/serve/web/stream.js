// Server-sent events over fetch. Unlike EventSource, fetch gives the reason for a refusal and applies backpressure.

const FIRST_REST_MS = 1000;
const LONGEST_REST_MS = 10_000;
/** A connection is dead after a silence of this length or of this many ticks of the server, whichever is longer. */
const SILENCE_MS = 15_000;
const SILENT_TICKS = 3;

/** The server refused the request; the message is its reason. */
export class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

/** Splits a stream into events, which may span several reads. */
class Cutter {
  #pieces = [];
  #end = "";

  /** Returns the events that this piece completes. */
  cut(piece) {
    const parts = (this.#end + piece).split("\n\n");
    const rest = parts.pop();
    // The newline may be the first half of the blank line that ends an event.
    this.#end = rest.endsWith("\n") ? "\n" : "";
    const events = parts.map((part, at) => (at === 0 ? this.#pieces.join("") + part : part));
    if (events.length) this.#pieces = [];
    this.#pieces.push(rest.slice(0, rest.length - this.#end.length));
    return events;
  }
}

/** Ends a connection that is silent for too long, because its other end may be gone. */
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

  /** Restarts the timeout after any data. */
  renew() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#end.abort(), this.#silence_ms);
  }

  /** Adapts the timeout to the server's refresh interval. */
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
 * Reads a stream until the signal aborts, and reconnects when it breaks.
 * `take(kind, data)` gets the events, `say(sentence)` the state of the connection: empty while it works.
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
      say("the server ended the stream; reconnecting");
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && error.status < 500) throw error;
      say(error instanceof Refused ? error.message : "no connection to the server; reconnecting");
    }
    await new Promise((done) => setTimeout(done, rest));
    rest = Math.min(rest * 2, LONGEST_REST_MS);
  }
}
