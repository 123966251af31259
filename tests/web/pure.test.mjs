// Tests the parts of the page that need no browser: filters, sorting, quantities, CSV and the stream.

import assert from "node:assert/strict";
import test from "node:test";

import { openSession } from "../../src/host/serve/web/access.js";
import { COLUMNS, columnNamed, sortRows } from "../../src/host/serve/web/columns.js";
import { csv } from "../../src/host/serve/web/csv.js";
import { Curves } from "../../src/host/serve/web/curves.js";
import { groups, Hour, latest } from "../../src/host/serve/web/hour.js";
import { parseFilter } from "../../src/host/serve/web/filter.js";
import * as format from "../../src/host/serve/web/format.js";
import { Flow, Sockets } from "../../src/host/serve/web/store.js";
import { follow } from "../../src/host/serve/web/stream.js";

const row = (handle, values) => ({ handle, peer: `10.0.0.2:${handle}`, algorithm: "reno", ...values });

test("words are read by column, sign and unit", () => {
  const passes = (text, values) => parseFilter(text)(row(1, values));
  assert.ok(passes("", {}));
  assert.ok(passes("RENO", {}) && passes("10.0.0.2:1", {}) && !passes("cubic", {}));
  assert.ok(passes("process:NGINX", { process: "nginx 42" }) && !passes("process:nginx", {}));
  assert.ok(passes("srtt>50ms", { srtt_us: 50_001 }) && !passes("srtt>50ms", { srtt_us: 50_000 }));
  assert.ok(passes("retrans>2% goodput<10mbit alg=reno", { retrans_ratio: 0.03, goodput_bps: 9e6 }));
  assert.ok(!passes("srtt<1s", { srtt_us: null }), "what is not known passes no limit");
});

test("words that say nothing are refused with what would", () => {
  for (const [text, expected] of [["speed>3", "one of peer"], ["srtt>50", "a time"], ["cwnd>1ms", "packets"], ["process>a", "process:text"], ["cwnd:7", "cwnd>value"], ["goodput>ten", "a rate"]]) {
    assert.throws(() => parseFilter(text), (refusal) => refusal.message.startsWith(`"${text}": expected`) && refusal.message.includes(expected), text);
  }
});

test("rows are sorted with the unknown last whichever way", () => {
  const rows = [row(1, { srtt_us: 5 }), row(2, { srtt_us: null }), row(3, { srtt_us: 9 }), row(4, { srtt_us: 5 })];
  const handles = (reversed) => sortRows(rows, columnNamed("srtt"), reversed).map((it) => it.handle);
  assert.deepEqual(handles(false), [3, 1, 4, 2]);
  assert.deepEqual(handles(true), [1, 4, 3, 2]);
});

test("ten thousand rows are sorted and filtered within a tenth of a second", () => {
  const rows = Array.from({ length: 10_000 }, (_, at) => row(at, { goodput_bps: (at * 7919) % 10_007 }));
  const passes = parseFilter("reno goodput>1kbit");
  const begin = process.cpuUsage();
  assert.equal(sortRows(rows.filter(passes), columnNamed("goodput"), false).length, 9000);
  assert.ok(process.cpuUsage(begin).user < 100_000);
});

test("quantities have three digits and a unit", () => {
  assert.deepEqual([0, 999, 1234, 56_789_000, 1.5e9].map(format.rate), ["0 bit/s", "999 bit/s", "1.23 kbit/s", "56.8 Mbit/s", "1.50 Gbit/s"]);
  assert.deepEqual([80, 41_234, 999_600, 2.5e6].map(format.time), ["80 µs", "41.2 ms", "1.00 s", "2.50 s"]);
  assert.deepEqual([0, 0.00123, 0.5].map(format.share), ["0 %", "0.12 %", "50.0 %"]);
  assert.deepEqual([format.rate(null), format.packets(null), format.age(3_725_000)], ["–", "–", "1 h 2 min"]);
  for (const column of COLUMNS) assert.equal(column.show(undefined ?? null) === "", false, column.name);
});

test("CSV quotes what it must and starts no formula", () => {
  assert.equal(csv(["a", "b"], [["x,y", 1.5], ['say "hi"', null], ["=1+1", true]]), "a,b\n\"x,y\",1.5\n\"say \"\"hi\"\"\",\n'=1+1,true\n");
});

test("sockets follow what changes", () => {
  const sockets = new Sockets();
  const status = { now_ms: 5000 };
  const name = [7, "99", "10.0.0.2:80", "10.0.0.1:1", null, "/x", "reno", 1000];
  sockets.take("sockets", { status, names: [name], rows: [[7, "probe", "Open", 10, null, 3, 40_000, 39_000, 1000, 0, 0.5, false]], gone: [] });
  assert.equal(sockets.rows.get(7).retrans_ratio, 0.5);
  assert.equal(sockets.rows.get(7).age_ms, 4000);
  sockets.take("changes", { status, names: [], rows: [[7, "probe", "Loss", 1, 5, 0, null, null, 0, 0, null, true]], gone: [] });
  assert.deepEqual([sockets.rows.get(7).ca_state, sockets.rows.get(7).is_closed, sockets.rows.get(7).peer], ["Loss", true, "10.0.0.2:80"]);
  sockets.take("changes", { status, names: [], rows: [], gone: [7] });
  assert.equal(sockets.rows.size, 0);
});

test("rule and arm come with a name, and are looked for by the filter", () => {
  const sockets = new Sockets();
  const frame = (rule, arm) => ({ status: { now_ms: 5000 }, names: [[7, "99", "10.0.0.2:80", "10.0.0.1:1", null, "/x", "reno", 1000, rule, arm]], rows: [], gone: [] });
  sockets.take("sockets", frame(null, null));
  assert.equal(sockets.hasPolicy, false);
  sockets.take("changes", frame("web", "keep"));
  const row = sockets.rows.get(7);
  assert.deepEqual([sockets.hasPolicy, sockets.copy().hasPolicy, row.rule, row.arm], [true, true, "web", "keep"]);
  assert.ok(parseFilter("rule:web arm:keep")(row) && parseFilter("web")(row) && !parseFilter("arm:dtcp")(row));
});

test("times, shares and e-values are written as people say them", () => {
  assert.deepEqual([0, 59.6, 3700, 90_061].map(format.clock), ["0 s", "1 min", "1 h 1 min", "1 d 1 h"]);
  assert.deepEqual([0.05, 0.0125, 1].map(format.portion), ["5 %", "1.25 %", "100 %"]);
  assert.deepEqual([null, 0.0004, 0.31, 180, 1.8e12].map(format.evidence), ["–", "0.0004", "0.31", "180", "2e12"]);
  assert.deepEqual([0.0132, 1.234].map(format.plain), ["0.013", "1.23"]);
});

test("sockets that are held change no more", () => {
  const sockets = new Sockets();
  const frame = (now_ms, cwnd_pkts) => ({ status: { now_ms }, names: [], rows: [[7, "probe", "Open", cwnd_pkts, null, 3, null, null, 0, 0, null, false]], gone: [] });
  sockets.take("sockets", { ...frame(2000, 10), names: [[7, "99", "10.0.0.2:80", "10.0.0.1:1", null, "/x", "reno", 1000]] });
  const held = sockets.copy();
  sockets.take("changes", frame(3000, 20));
  sockets.take("changes", { ...frame(4000, 30), gone: [7] });
  assert.deepEqual([held.now_ms, held.rows.get(7).cwnd_pkts, held.rows.get(7).age_ms], [2000, 10, 1000]);
});

const columns = (times) => ({ time_ms: times, cwnd_pkts: times, ssthresh_pkts: times.map(() => null), inflight_pkts: times, srtt_us: times, min_rtt_us: times, goodput_bps: times, phase: times.map(() => 0), ca_state: times.map(() => "Open") });
const frame = (times, marks) => ({ status: { now_ms: 100 }, socket: { first_ms: 0 }, moments: columns(times), marks, phases: [[1, "probe"]], state: [] });

test("a flow takes each moment once and lets marks grow", () => {
  const flow = new Flow();
  flow.take("flow", frame([1, 2], [[2, "loss", 3]]));
  flow.take("moments", frame([2, 3], [[2, "loss", 5], [3, "timeout", 1]]));
  assert.deepEqual(flow.moments.time_ms, [1, 2, 3]);
  assert.deepEqual(flow.marks.map((mark) => mark.count), [5, 1]);
  flow.take("flow", frame([1], []));
  assert.deepEqual([flow.moments.cwnd_pkts, flow.marks], [[1], []]);
});

test("a flow that is not known has no past, and one that comes again begins anew", () => {
  const flow = new Flow();
  flow.take("flow", frame([50, 60], [[50, "loss", 3]]));
  const held = flow.copy();
  flow.take("unknown", { status: { now_ms: 1 } });
  assert.deepEqual([flow.socket, flow.moments.time_ms, flow.marks, flow.state], [null, [], [], []]);
  flow.take("moments", frame([2, 3], []));
  assert.deepEqual(flow.moments.time_ms, [2, 3]);
  assert.deepEqual([held.moments.time_ms, held.marks.length, held.socket.first_ms], [[50, 60], 1, 0]);
});

test("a round-trip time without a sample is not known, in CSV too", () => {
  const flow = new Flow();
  flow.take("flow", frame([0, 5], []));
  const { srtt_us, min_rtt_us, cwnd_pkts } = flow.moments;
  assert.deepEqual([srtt_us, min_rtt_us, cwnd_pkts], [[null, 5], [null, 5], [0, 5]]);
  assert.equal(csv(["cwnd_pkts", "srtt_us"], [[cwnd_pkts[0], srtt_us[0]]]), "cwnd_pkts,srtt_us\n0,\n");
});

test("a plot has each moment once, and begins anew when the time is set back", () => {
  const curves = new Curves();
  const take = (now_ms, ...handles) => curves.take(handles.map((handle) => row(handle, { cwnd_pkts: now_ms })), now_ms, (it) => it.cwnd_pkts);
  assert.ok(take(1000, 1) && !take(2000, 1));
  for (let again = 0; again < 1000; again += 1) take(2000, 1);
  assert.deepEqual(curves.data, [[0, 1], [1000, 2000]]);
  assert.ok(take(2000, 1, 2) && take(3000, 2));
  assert.deepEqual(curves.data, [[0, 1, 2], [null, 2000, 3000]]);
  assert.ok(take(500, 2), "what was is void");
  take(1500, 2);
  assert.deepEqual(curves.data, [[0, 1], [500, 1500]]);
});

test("a plot keeps the latest moments, and so many curves", () => {
  const curves = new Curves();
  const rows = Array.from({ length: 300 }, (_, at) => row(at, {}));
  for (let second = 0; second < 1000; second += 1) curves.take(rows, second * 1000, () => second);
  assert.equal(curves.all.size, 200);
  assert.deepEqual([curves.times.length, curves.times[0], curves.data[200].length, curves.data[200][0]], [600, 400, 600, 400]);
});

test("a curve keeps its colour when another goes, and its past is put before it", () => {
  const curves = new Curves();
  const rows = (...handles) => handles.map((handle) => row(handle, { id: String(handle), cwnd_pkts: 5 }));
  curves.take(rows(1, 2, 3), 10_000, (it) => it.cwnd_pkts);
  assert.deepEqual(curves.unasked, ["1", "2", "3"]);
  curves.ask(curves.unasked);
  curves.take(rows(2, 3, 4), 11_000, (it) => it.cwnd_pkts);
  assert.deepEqual([...curves.all.values()].map((it) => [it.id, it.number]), [["2", 1], ["3", 2], ["4", 0]]);
  assert.deepEqual(curves.unasked, ["4"]);
  curves.takePast({ begin_ms: 8000, step_ms: 1000, curves: { 2: [1, 2, 3, 4], 4: [null, 7, 8, 9] } });
  assert.deepEqual(curves.data, [[-2, -1, 0, 1], [1, 2, 5, 5], [null, null, 5, 5], [null, 7, 8, 5]]);
});

const line = (id, values, more = {}) => ({ id, kind: "algorithm", algorithm: `a${id}`, rule: null, arm: null, goodput_bps: values, retrans_ratio: values, rtt_p50_us: values, rtt_p95_us: values, sockets: values, ...more });
const hourFrame = (newest, series, more = {}) => ({ newest, first: 0, slots: 4, step_ms: 1000, series, changes: [], ...more });

test("the hour grows by its newest values and forgets its oldest", () => {
  const hour = new Hour();
  hour.take("overview", hourFrame(2, [line(1, [10, 11, 12])]));
  assert.deepEqual(hour.times(2500), [1000, 2000, 2500]);
  const held = hour.copy();
  hour.take("recent", hourFrame(3, [line(1, [13, 14]), line(2, [null, 5])]));
  assert.deepEqual([hour.lines.get(1).goodput_bps, hour.lines.get(2).goodput_bps], [[10, 11, 13, 14], [null, null, null, 5]]);
  hour.take("recent", hourFrame(6, [line(1, [16, 17])]));
  assert.deepEqual([hour.lines.get(1).goodput_bps, hour.lines.size, hour.times(9000).length], [[14, null, 16, 17], 1, 4]);
  assert.deepEqual(held.lines.get(1).goodput_bps, [10, 11, 12], "what is held changes no more");
  hour.take("recent", hourFrame(1, [line(1, [1, 2])]));
  assert.deepEqual(hour.lines.get(1).goodput_bps, [1, 2], "the time was set back");
  hour.take("overview", hourFrame(0, []));
  assert.equal(hour.lines.size, 0);
  assert.deepEqual([latest([3, null]), latest([3, null, null]), latest([])], [3, null, null]);
});

test("algorithms are drawn together, and the arms of each rule with the baseline first", () => {
  const arm = (id, rule, name) => line(id, [1], { kind: "arm", algorithm: null, rule, arm: name });
  const others = line(9, [1], { kind: "other_arms", algorithm: null });
  const lines = [line(1, [1], { kind: "host", algorithm: null }), line(2, [1]), arm(3, "web", "dtcp"), arm(4, "web", "keep"), arm(5, "mail", "reno"), others];
  const drawn = [...groups(lines).values()].map((group) => [group.title, group.lines.map((it) => it.id)]);
  assert.deepEqual(drawn, [["Algorithms", [1, 2]], ["Rule web", [4, 3]], ["Rule mail", [5]], ["Other arms", [9]]]);
});

/** A server that answers with these pieces and then stays silent. */
function answers(pieces) {
  return async (_, { signal }) => ({
    ok: true,
    body: new ReadableStream({
      start(body) {
        pieces.forEach((piece) => body.enqueue(piece));
        signal.addEventListener("abort", () => body.error(new Error("aborted")));
      },
    }),
  });
}

const settled = () => new Promise((done) => setImmediate(done));

/** Waits until a condition holds. Fails after 1000 turns. */
async function until(holds) {
  for (let turn = 0; turn < 1000 && !holds(); turn += 1) await settled();
  assert.ok(holds());
}

test("events are the same wherever the stream is split", async (t) => {
  const text = new TextEncoder().encode('event: one\ndata: {"a":"µ"}\n\nevent: two\ndata: 2\n\nevent: three\ndata: [3]\n\n');
  const whole = [["one", { a: "µ" }], ["two", 2], ["three", [3]]];
  const splits = Array.from(text, (_, at) => [text.slice(0, at), text.slice(at)]);
  for (const pieces of [...splits, Array.from(text, (byte) => Uint8Array.of(byte))]) {
    t.mock.method(globalThis, "fetch", answers(pieces));
    const [heard, said, stop] = [[], [], new AbortController()];
    const following = follow("/", stop.signal, (...event) => heard.push(event), (sentence) => said.push(sentence));
    await until(() => heard.length === 3 || said.some(Boolean));
    stop.abort();
    await following;
    assert.deepEqual([heard, said.filter(Boolean)], [whole, []], `after ${pieces[0].length} bytes`);
  }
});

test("a connection that is silent for too long is made again", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  for (const [refresh_ms, patience_ms] of [[1000, 15_000], [60_000, 180_000]]) {
    const event = `event: sockets\ndata: {"status":{"refresh_ms":${refresh_ms}}}\n\n`;
    const asked = t.mock.method(globalThis, "fetch", answers([new TextEncoder().encode(event)])).mock;
    const [heard, said, stop] = [[], [], new AbortController()];
    const following = follow("/", stop.signal, (kind) => heard.push(kind), (sentence) => said.push(sentence));
    await until(() => heard.length === 1);
    await settled();
    t.mock.timers.tick(patience_ms - 1);
    await settled();
    assert.deepEqual([asked.callCount(), said], [1, [""]], "it was given up too early");
    t.mock.timers.tick(1);
    await until(() => said.length === 2);
    assert.match(said[1], /no connection to the server/);
    t.mock.timers.tick(1000);
    await until(() => heard.length === 2);
    assert.deepEqual([asked.callCount(), said[2]], [2, ""]);
    stop.abort();
    await following;
  }
});

test("a server that does not answer at all is asked again", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const never = (_, { signal }) => new Promise((_, refuse) => signal.addEventListener("abort", () => refuse(new Error("aborted"))));
  const asked = t.mock.method(globalThis, "fetch", never).mock;
  const [said, stop] = [[], new AbortController()];
  follow("/", stop.signal, () => {}, (sentence) => said.push(sentence));
  t.mock.timers.tick(15_000);
  await until(() => said.length === 1);
  t.mock.timers.tick(1000);
  await until(() => asked.callCount() === 2);
  stop.abort();
});

test("who may not log in is told why", async (t) => {
  const refusal = async (status, text) => {
    t.mock.method(globalThis, "fetch", async () => new Response(text, { status }));
    return openSession("x");
  };
  assert.equal(await refusal(204, null), null);
  assert.equal(await refusal(401, "the token is wrong: look\n"), "That token is wrong.");
  assert.equal(await refusal(403, "pages of other origins may not ask this server\n"), "pages of other origins may not ask this server");
  assert.equal(await openSession("ß"), "That token is wrong.", "no header can hold it");
  t.mock.method(globalThis, "fetch", async () => { throw new TypeError("no connection"); });
  assert.equal(await openSession("%"), "The server did not answer.");
});
