// Decisions and rewards over time, with the mean reward below on the same axis.

import { freshId, h, headRow, keyed, setText, svg } from "./dom.js";
import { count, dayName, hourMinute, moment, number, plural, shortDay, stretch as stretchName } from "./format.js";
import { extent, ticks, timeTicks } from "./scale.js";

export const LEFT = 48;
export const RIGHT = 8;
const UPPER = { top: 10, height: 170 };
const LOWER = { top: 10, height: 90 };
const AXIS = 22;
const NARROWEST = 6; // pixels for one bar
const MULTIPLES = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60, 120, 240, 360, 720, 1440];

// Whole stretches put together until there are at most so many; what the service left out had nothing.
function binned({ activity, stretch }, start, end, most) {
  const fits = (k) => (end - start) / (k * stretch * 1000) <= most;
  const size = (MULTIPLES.find(fits) ?? Math.ceil((end - start) / (stretch * 1000 * most))) * stretch * 1000;
  const first = Math.floor(start / size) * size;
  const bins = [];
  for (let time = first; time <= end; time += size) bins.push({ time, decisions: 0, rewards: 0, total: 0 });
  for (const entry of activity) {
    const bin = bins[Math.floor((entry.time - first) / size)];
    if (!bin) continue;
    bin.decisions += entry.decisions;
    bin.rewards += entry.rewards;
    bin.total += (entry.mean_reward ?? 0) * entry.rewards;
  }
  return { size, bins: bins.map(({ total, ...bin }) => ({ ...bin, mean: bin.rewards ? total / bin.rewards : null })) };
}

export function frame(part, width, domain, format) {
  const y = (value) => part.top + part.height * (1 - (value - domain[0]) / (domain[1] - domain[0]));
  const lines = ticks(domain[0], domain[1], part.height > 120 ? 5 : 3).flatMap((tick) => [
    svg("line", { class: tick === 0 ? "zero" : "grid", x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick) }),
    svg("text", { x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" }, format(tick)),
  ]);
  return { y, lines };
}

export function timeAxis(start, end, width, x, bottom) {
  const { step, times } = timeTicks(start, end, Math.max(Math.floor((width - LEFT) / 76), 2));
  const name = step < 86400_000 ? hourMinute : end - start > 8 * 86400_000 ? shortDay : dayName;
  return times.flatMap((time) => [
    svg("line", { class: "tick", x1: x(time), x2: x(time), y1: bottom, y2: bottom + 4 }),
    svg("text", { x: Math.min(x(time), width - 22), y: bottom + 17, "text-anchor": "middle" }, name(time)),
  ]);
}

export function timeline() {
  const caption = freshId("timeline");
  const upper = svg("svg", { class: "timeline", "aria-hidden": "true" });
  const lower = svg("svg", { class: "timeline", "aria-hidden": "true" });
  const readout = h("p", { class: "readout" });
  const perBar = h("span", { class: "hint" });
  const key = (name, text) => h("li", null, h("span", { class: `key ${name}` }), text);
  const chart = h(
    "div",
    { class: "timeline-box", tabindex: "0", role: "slider", "aria-labelledby": caption, "aria-valuemin": "0" },
    upper,
    h("p", { class: "chart-title lower" }, "Mean reward"),
    lower,
  );
  const table = h("tbody");
  const element = h(
    "figure",
    { class: "chart" },
    h(
      "figcaption",
      { id: caption },
      h("span", { class: "chart-title" }, "Decisions and rewards"),
      perBar,
      h("ul", { class: "legend" }, key("decisions", "decisions"), key("rewards", "rewards")),
    ),
    chart,
    readout,
    h(
      "details",
      null,
      h("summary", null, "As a table"),
      h(
        "div",
        { class: "scroll-y", tabindex: "0", role: "region", "aria-label": "Decisions and rewards as a table" },
        h(
          "table",
          { class: "plain" },
          headRow([["From"], ["Decisions", "text"], ["Rewards", "text"], ["Mean reward", "text"]]),
          table,
        ),
      ),
    ),
  );

  let data = null;
  let drawn = null; // { bins, x, bar, size }
  let cursor = null;

  function say(bin, size) {
    const until = size >= 86400_000 ? "" : ` to ${hourMinute(bin.time + size)}`;
    const mean = bin.mean === null ? "" : `, mean reward ${number(bin.mean)}`;
    const counts = `${plural(bin.decisions, "decision")}, ${plural(bin.rewards, "reward")}`;
    return `${moment(bin.time, false)}${until}: ${counts}${mean}`;
  }

  function point() {
    for (const graph of [upper, lower]) graph.querySelector(".cursor")?.remove();
    const index = drawn && cursor !== null ? drawn.bins.findIndex((bin) => bin.time === cursor) : -1;
    chart.setAttribute("aria-valuemax", String(Math.max((drawn?.bins.length ?? 1) - 1, 0)));
    if (index < 0) {
      cursor = null;
      readout.textContent = "Point at the chart, or use the arrow keys, to read a bar.";
      const last = drawn ? drawn.bins.length - 1 : 0;
      chart.setAttribute("aria-valuenow", String(last));
      chart.setAttribute("aria-valuetext", drawn ? say(drawn.bins[last], drawn.size) : "");
      return;
    }
    const bin = drawn.bins[index];
    const at = { class: "cursor", x: drawn.x(bin.time), width: Math.max(drawn.bar, 1), y: 0 };
    upper.prepend(svg("rect", { ...at, height: UPPER.top + UPPER.height }));
    lower.prepend(svg("rect", { ...at, height: LOWER.top + LOWER.height }));
    readout.textContent = say(bin, drawn.size);
    chart.setAttribute("aria-valuenow", String(index));
    chart.setAttribute("aria-valuetext", readout.textContent);
  }

  function draw() {
    const width = chart.clientWidth;
    if (!data || width < 100) return;
    const { start, end, answer } = data;
    const { bins, size } = binned(answer, start, end, Math.floor((width - LEFT - RIGHT) / NARROWEST));
    const first = bins[0].time;
    const last = bins.at(-1).time + size;
    const x = (time) => LEFT + ((time - first) / (last - first)) * (width - LEFT - RIGHT);
    const bar = (size / (last - first)) * (width - LEFT - RIGHT);
    drawn = { bins, x, bar, size };
    perBar.textContent = `per ${stretchName(size / 1000)}`;

    const most = Math.max(...bins.map((bin) => Math.max(bin.decisions, bin.rewards)), 4);
    const above = frame(UPPER, width, [0, most * 1.05], count);
    const column = (bin, name, share) => {
      if (!bin[name]) return null;
      const thick = Math.max(bar * share, 1);
      const y = above.y(bin[name]);
      const place = { x: x(bin.time) + (bar - thick) / 2, width: thick, y, height: UPPER.top + UPPER.height - y };
      return svg("rect", { class: name, ...place, rx: Math.min(thick / 4, 2) });
    };
    upper.setAttribute("width", width);
    upper.setAttribute("height", UPPER.top + UPPER.height + 4);
    upper.replaceChildren(
      ...above.lines,
      ...bins.flatMap((bin) => [column(bin, "decisions", 0.84), column(bin, "rewards", 0.42)]).filter(Boolean),
    );

    const means = bins.filter((bin) => bin.mean !== null);
    const below = frame(LOWER, width, extent(means.map((bin) => bin.mean), 0.12), number);
    const middle = (bin) => x(bin.time) + bar / 2;
    let path = "";
    bins.forEach((bin, k) => {
      if (bin.mean === null) return;
      path += `${k && bins[k - 1].mean !== null ? "L" : "M"}${middle(bin).toFixed(1)},${below.y(bin.mean).toFixed(1)}`;
    });
    const bottom = LOWER.top + LOWER.height;
    const radius = bar > 8 ? 2.5 : 1.75;
    const middleOfAll = { x: width / 2, y: bottom / 2, "text-anchor": "middle" };
    const nothing = svg("text", middleOfAll, "No rewards in this time");
    lower.setAttribute("width", width);
    lower.setAttribute("height", LOWER.top + LOWER.height + AXIS);
    lower.replaceChildren(
      ...(means.length ? below.lines : []),
      svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: bottom, y2: bottom }),
      ...timeAxis(first, last, width, x, bottom),
      svg("path", { class: "mean", d: path }),
      ...means.map((bin) => svg("circle", { class: "mean-dot", cx: middle(bin), cy: below.y(bin.mean), r: radius })),
      ...(means.length ? [] : [nothing]),
    );

    keyed(
      table,
      bins.filter((bin) => bin.decisions || bin.rewards).reverse(),
      (bin) => bin.time,
      () => {
        const cells = [h("th", { scope: "row" }), ...[1, 2, 3].map(() => h("td", { class: "text" }))];
        return { element: h("tr", null, ...cells), cells };
      },
      (row, bin) => {
        const texts = [moment(bin.time, false), count(bin.decisions), count(bin.rewards), number(bin.mean)];
        texts.forEach((text, k) => setText(row.cells[k], text));
      },
    );
    point();
  }

  function follow(event) {
    if (!drawn) return;
    const x = event.clientX - chart.getBoundingClientRect().left;
    const bin = drawn.bins.findLast((candidate) => drawn.x(candidate.time) <= x) ?? drawn.bins[0];
    cursor = bin.time;
    point();
  }

  chart.addEventListener("pointermove", follow);
  chart.addEventListener("pointerdown", follow);
  chart.addEventListener("pointerleave", () => {
    if (document.activeElement !== chart) cursor = null;
    point();
  });
  chart.addEventListener("blur", () => {
    cursor = null;
    point();
  });
  chart.addEventListener("keydown", (event) => {
    if (!drawn) return;
    const last = drawn.bins.length - 1;
    const now = cursor === null ? last + 1 : drawn.bins.findIndex((bin) => bin.time === cursor);
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    cursor = drawn.bins[Math.min(Math.max(to, 0), last)].time;
    point();
  });
  const resized = new ResizeObserver(draw);
  resized.observe(chart);

  return {
    element,
    draw(answer, start, end) {
      data = { answer, start, end };
      draw();
    },
    stop() {
      resized.disconnect();
    },
  };
}
