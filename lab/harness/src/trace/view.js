"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const canvas = document.getElementById("view"), tip = document.getElementById("tip");
const note = document.getElementById("note"), search = document.getElementById("search");
const LANE = 34, BAR = 20, TOP = 24, LEFT = 150, DEPTH = 60, MOST_ARROWS = 3000;
const LONGEST = 12, MARGIN = 8;
let from = 0, span = Math.max(data.span, 1), pointer = null, found = [], shown = -1, chosen = null;
const height = () => TOP + data.lanes.length * LANE + data.counters.length * (DEPTH + 10) + 10;
for (const lane of data.lanes) {
  lane.slices.sort((a, b) => a[0] - b[0]);
  lane.instants.sort((a, b) => a[0] - b[0]);
}
// A slice is [start, duration, name, task, how it ended]; a flow is [lane, since, to lane, at, why].
const isStep = (slice) => slice[3] !== 0;
// What made a step runnable: by the lane and the begin of the step.
const pushes = new Map(data.flows.map((flow) => [flow[2] + " " + flow[3], flow]));
const colours = data.names.map((name) => {
  if (name === "sleeps") return "hsl(0 0% 60% / .35)";
  let hash = 0;
  for (const char of name) hash = (hash * 31 + char.codePointAt(0)) >>> 0;
  return `hsl(${hash % 360} 55% 60%)`;
});
const time = (ns) => ns >= 1e9 ? (ns / 1e9).toFixed(3) + " s" : ns >= 1e6 ? (ns / 1e6).toFixed(3) + " ms"
  : ns >= 1e3 ? (ns / 1e3).toFixed(2) + " µs" : ns.toFixed(0) + " ns";
// The first slice that ends at `ns` or later: slices of a lane follow each other.
function first(slices, ns) {
  let low = 0, high = slices.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (slices[middle][0] + slices[middle][1] < ns) low = middle + 1; else high = middle;
  }
  return low;
}
function draw() {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, tall = height();
  canvas.style.height = tall + "px";
  canvas.width = width * ratio;
  canvas.height = tall * ratio;
  const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
  const [ink, soft, rule] = ["--ink", "--soft", "--rule"].map((name) => style.getPropertyValue(name));
  pen.scale(ratio, ratio);
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  const inner = width - LEFT, x = (ns) => LEFT + (ns - from) / span * inner;
  // Marks of time at 1, 2 or 5 times a power of ten.
  let step = 10 ** Math.floor(Math.log10(Math.max(span / 8, 1)));
  step *= span / step > 40 ? 5 : span / step > 16 ? 2 : 1;
  for (let ns = Math.ceil(from / step) * step; ns <= from + span; ns += step) {
    pen.fillStyle = rule;
    pen.fillRect(x(ns), TOP - 6, 1, tall);
    pen.fillStyle = soft;
    pen.fillText(time(ns), x(ns) + 3, TOP / 2);
  }
  pen.save();
  pen.beginPath();
  pen.rect(LEFT, TOP, inner, tall);
  pen.clip();
  data.lanes.forEach((lane, at) => {
    const y = TOP + at * LANE + (LANE - BAR) / 2;
    let drawn = -1;
    for (let index = first(lane.slices, from); index < lane.slices.length; index++) {
      const [start, lasts, name] = lane.slices[index];
      if (start > from + span) break;
      const left = x(start), right = x(start + lasts);
      // One slice for each pixel is enough.
      if (right < drawn + 0.5) continue;
      drawn = Math.max(right, left + 0.7);
      pen.fillStyle = colours[name];
      pen.fillRect(left, y, Math.max(right - left, 0.7), BAR);
      if (chosen === lane.slices[index]) {
        pen.strokeStyle = ink;
        pen.lineWidth = 2;
        pen.strokeRect(left - 1, y - 1, Math.max(right - left, 0.7) + 2, BAR + 2);
        pen.lineWidth = 1;
      }
      if (right - left > 30) {
        pen.save();
        pen.beginPath();
        pen.rect(Math.max(left, LEFT), y, Math.min(right, width) - Math.max(left, LEFT) - 2, BAR);
        pen.clip();
        pen.fillStyle = "#111";
        pen.fillText(data.names[name], Math.max(left, LEFT) + 3, y + BAR / 2);
        pen.restore();
      }
    }
    pen.fillStyle = soft;
    for (const [ns] of lane.instants) {
      if (ns >= from && ns <= from + span) pen.fillRect(x(ns), y - 5, 1, 4);
    }
  });
  const seen = data.flows.filter((flow) => flow[3] >= from && flow[1] <= from + span);
  note.textContent = seen.length <= MOST_ARROWS ? ""
    : `${seen.length} wakes are in view: arrows are drawn for at most ${MOST_ARROWS}. Zoom in.`;
  if (seen.length <= MOST_ARROWS) {
    pen.strokeStyle = ink;
    pen.fillStyle = ink;
    pen.globalAlpha = seen.length > 300 ? 0.15 : 0.5;
    const y = (lane) => TOP + lane * LANE + LANE / 2;
    for (const [lane, start, to, end] of seen) {
      const [x1, y1, x2, y2] = [x(start), y(lane) - BAR / 2, x(end), y(to) - BAR / 2];
      pen.beginPath();
      pen.moveTo(x1, y1);
      pen.bezierCurveTo(x1 + (x2 - x1) / 2, y1 - 6, x1 + (x2 - x1) / 2, y2 - 6, x2, y2);
      pen.stroke();
      pen.beginPath();
      pen.moveTo(x2, y2);
      pen.lineTo(x2 - 3, y2 - 5);
      pen.lineTo(x2 + 3, y2 - 5);
      pen.fill();
    }
    pen.globalAlpha = 1;
  }
  data.counters.forEach((counter, at) => {
    const bottom = TOP + data.lanes.length * LANE + (at + 1) * (DEPTH + 10);
    const most = counter.values.reduce((most, value) => Math.max(most, value[1]), 1);
    pen.beginPath();
    pen.moveTo(LEFT, bottom);
    let last = 0;
    for (const [ns, value] of counter.values) {
      pen.lineTo(x(ns), bottom - last / most * DEPTH);
      last = value;
      pen.lineTo(x(ns), bottom - last / most * DEPTH);
    }
    pen.lineTo(x(data.span), bottom - last / most * DEPTH);
    pen.lineTo(x(data.span), bottom);
    pen.fillStyle = "hsl(210 60% 55% / .5)";
    pen.fill();
  });
  pen.restore();
  pen.fillStyle = ink;
  data.lanes.forEach((lane, at) => pen.fillText(lane.name, 10, TOP + at * LANE + LANE / 2, LEFT - 16));
  data.counters.forEach((counter, at) => {
    const bottom = TOP + data.lanes.length * LANE + (at + 1) * (DEPTH + 10);
    const most = counter.values.reduce((most, value) => Math.max(most, value[1]), 0);
    pen.fillText(counter.name, 10, bottom - DEPTH / 2 - 7, LEFT - 16);
    pen.fillText("at most " + most, 10, bottom - DEPTH / 2 + 8, LEFT - 16);
  });
}
const at = (event) => from + (event.offsetX - LEFT) / (canvas.clientWidth - LEFT) * span;
function zoom(factor, around) {
  const next = Math.min(Math.max(span * factor, 100), data.span * 1.1 + 100);
  from = around - (around - from) * next / span;
  span = next;
  draw();
}
// The step of a lane in which a moment is.
function around(lane, ns) {
  const slice = data.lanes[lane].slices[first(data.lanes[lane].slices, ns)];
  return slice && slice[0] <= ns && isStep(slice) ? slice : null;
}
// For how long a step waited for its worker; null if its push was not recorded.
function delay(lane, slice) {
  const push = pushes.get(lane + " " + slice[0]);
  return push && isStep(slice) ? slice[0] - push[1] : null;
}
function about(lane, slice) {
  const lines = [data.names[slice[2]], `${time(slice[1])}, from ${time(slice[0])}`];
  if (!isStep(slice)) return lines;
  lines.push(`task ${slice[3]}, step ${slice[4] || "not over"}`);
  const push = pushes.get(lane + " " + slice[0]);
  if (!push) return [...lines, "runnable since: not recorded"];
  const by = around(push[0], push[1]), place = data.lanes[push[0]].name;
  lines.push(`runnable since ${time(push[1])}: waited ${time(slice[0] - push[1])}`);
  lines.push(`${data.names[push[4]]} by ` + (by ? `${data.names[by[2]]} (task ${by[3]}, ${place})` : place));
  return lines;
}
// The instant next to the pointer: the marks above the slices.
function instant(lane, event) {
  const pixel = span / (canvas.clientWidth - LEFT), ns = at(event);
  const above = (event.offsetY - TOP) % LANE < (LANE - BAR) / 2 + 2;
  if (!above) return null;
  let best = null;
  for (const one of lane.instants) {
    const far = Math.abs(one[0] - ns);
    if (far <= 4 * pixel && (!best || far < Math.abs(best[0] - ns))) best = one;
  }
  return best;
}
function point(event) {
  const number = Math.floor((event.offsetY - TOP) / LANE), lane = data.lanes[number], ns = at(event);
  const inside = lane && event.offsetX >= LEFT;
  const mark = inside ? instant(lane, event) : null;
  const slice = inside ? lane.slices[first(lane.slices, ns)] : undefined;
  tip.hidden = !mark && (!slice || slice[0] > ns);
  if (tip.hidden) return;
  tip.textContent = mark ? `${data.names[mark[1]]}\nat ${time(mark[0])}` : about(number, slice).join("\n");
  tip.style.left = Math.max(Math.min(event.clientX + 12, window.innerWidth - tip.offsetWidth - MARGIN), 0) + "px";
  tip.style.top = event.clientY + 12 + "px";
}
// Shows a slice with what made it runnable, and says what is known of it.
function jump(lane, slice) {
  const since = slice[0] - (delay(lane, slice) || 0), end = slice[0] + slice[1];
  span = Math.max((end - since) * 3, 1000);
  from = (since + end) / 2 - span / 2;
  chosen = slice;
  document.getElementById("chosen").textContent = `${data.lanes[lane].name}: ${about(lane, slice).join("; ")}`;
  draw();
}
// The largest of all steps by a measure, with their lanes.
function largest(measure) {
  const all = [];
  data.lanes.forEach((lane, number) => {
    for (const slice of lane.slices) {
      const value = isStep(slice) ? measure(number, slice) : null;
      if (value !== null && value > 0) all.push([value, number, slice]);
    }
  });
  return all.sort((a, b) => b[0] - a[0]).slice(0, LONGEST);
}
function list(id, measure) {
  const place = document.getElementById(id);
  for (const [value, lane, slice] of largest(measure)) {
    const button = document.createElement("button");
    button.textContent = `${time(value)}  ${data.names[slice[2]]}, task ${slice[3]}`;
    button.addEventListener("click", () => jump(lane, slice));
    const item = document.createElement("li");
    item.append(button);
    place.append(item);
  }
  if (!place.children.length) place.textContent = "none is recorded";
}
// The slowest tasks: a click shows a task from spawn to end, and where its time went.
function slow() {
  const place = document.getElementById("slowest");
  for (const task of data.slowest.tasks) {
    const button = document.createElement("button"), cause = document.createElement("p");
    button.textContent = `${time(task.total)}  ${task.name}, ${task.kind}, task ${task.task}`;
    cause.textContent = task.cause;
    button.addEventListener("click", () => {
      span = Math.max(task.total * 1.5, 1000);
      from = task.since - task.total * 0.25;
      chosen = null;
      search.value = "#" + task.task;
      look(search.value);
      document.getElementById("chosen").textContent =
        `${task.name}: ${task.cause}. In all: ${task.parts.join("; ")}`;
      draw();
    });
    const item = document.createElement("li");
    item.append(button, cause);
    place.append(item);
  }
  if (!place.children.length) place.textContent = "none is recorded";
}
// The steps whose name has these letters, or whose task has this number.
function look(text) {
  const wanted = text.trim().toLowerCase(), number = Number(wanted.replace(/^#/, ""));
  found = [];
  shown = -1;
  if (wanted) {
    data.lanes.forEach((lane, place) => {
      for (const slice of lane.slices) {
        const named = data.names[slice[2]].toLowerCase().includes(wanted);
        if (isStep(slice) && (named || slice[3] === number)) found.push([place, slice]);
      }
    });
    found.sort((a, b) => a[1][0] - b[1][0]);
  }
  tell();
}
function tell() {
  const text = search.value.trim() === "" ? "" : found.length === 0 ? "no step has it"
    : shown < 0 ? `${found.length} steps` : `${shown + 1} of ${found.length}`;
  document.getElementById("found").textContent = text;
}
function next(by) {
  if (found.length === 0) return;
  shown = shown < 0 && by < 0 ? found.length - 1 : (shown + by + found.length) % found.length;
  jump(...found[shown]);
  tell();
}
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(event.deltaY > 0 ? 1.25 : 0.8, at(event));
}, { passive: false });
canvas.addEventListener("pointerdown", (event) => {
  pointer = event.offsetX;
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointerup", () => { pointer = null; });
canvas.addEventListener("pointermove", (event) => {
  if (pointer === null) return point(event);
  from -= (event.offsetX - pointer) / (canvas.clientWidth - LEFT) * span;
  pointer = event.offsetX;
  draw();
});
canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
canvas.addEventListener("keydown", (event) => {
  const middle = from + span / 2;
  if (event.key === "+") zoom(0.7, middle);
  else if (event.key === "-") zoom(1.4, middle);
  else if (event.key === "ArrowLeft") { from -= span / 5; draw(); }
  else if (event.key === "ArrowRight") { from += span / 5; draw(); }
  else if (event.key === "0") { from = 0; span = Math.max(data.span, 1); draw(); }
});
search.addEventListener("input", () => look(search.value));
search.addEventListener("keydown", (event) => { if (event.key === "Enter") next(event.shiftKey ? -1 : 1); });
document.getElementById("next").addEventListener("click", () => next(1));
document.getElementById("before").addEventListener("click", () => next(-1));
list("slices", (lane, slice) => slice[1]);
list("delays", delay);
slow();
window.addEventListener("resize", draw);
draw();
