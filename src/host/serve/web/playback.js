// Controls the playback of a recording: play, pause, speed, position.

import { element, setText } from "./dom.js";
import { age } from "./format.js";

const SPEEDS = [0.1, 0.5, 1, 2, 5, 10, 60];

function tell(wanted) {
  return fetch("/api/playback", { method: "POST", body: JSON.stringify(wanted) });
}

export class Playback {
  constructor(host) {
    this.host = host;
    this.button = element("button", { type: "button", onclick: () => tell({ speed: this.speed > 0 ? 0 : Number(this.choice.value) }) });
    this.choice = element("select", { "aria-label": "Speed", onchange: () => tell({ speed: Number(this.choice.value) }) },
      ...SPEEDS.map((speed) => element("option", { value: speed, selected: speed === 1 }, `${speed} ×`)));
    this.slider = element("input", { type: "range", min: 0, max: 1000, step: "any", "aria-label": "Moment of the recording",
      onchange: () => tell({ seek_ms: this.begin_ms + Number(this.slider.value) }).finally(() => { this.isHeld = false; }),
      oninput: () => { this.isHeld = true; } });
    this.clock = element("output", {});
    host.replaceChildren(this.button, this.choice, this.slider, this.clock);
  }

  show(status) {
    this.host.hidden = !status.playback;
    if (!status.playback) return;
    const { begin_ms, end_ms, speed } = status.playback;
    if (speed !== this.speed) this.#choose(speed);
    Object.assign(this, { begin_ms, speed });
    setText(this.button, speed > 0 ? "❚❚ Pause" : "▶ Play");
    this.slider.max = end_ms - begin_ms;
    if (!this.isHeld) this.slider.value = status.now_ms - begin_ms;
    setText(this.clock, `${age(status.now_ms - begin_ms)} of ${age(end_ms - begin_ms)}`);
    this.slider.setAttribute("aria-valuetext", this.clock.textContent);
  }

  /** Shows the speed in the menu, even if another page chose it. A pause keeps the previous choice. */
  #choose(speed) {
    if (speed === 0) return;
    const isOffered = [...this.choice.options].some((option) => Number(option.value) === speed);
    if (!isOffered) this.choice.append(element("option", { value: speed }, `${speed} ×`));
    this.choice.value = speed;
  }
}
