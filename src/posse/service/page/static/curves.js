// How it went: what was earned, how often each arm was taken, and what each earned, over time.

import { freshId, h, headRow, keyed, label, setHidden, setText, svg } from "./dom.js";
import {
  CONFIDENCE,
  between,
  count,
  moment,
  number,
  percent,
  plural,
  stretch as stretchName,
  timeOf,
} from "./format.js";
import { extent } from "./scale.js";
import { LEFT, RIGHT, frame, timeAxis } from "./timeline.js";

const PART = { top: 8, height: 120 };
const AXIS = 22;
const COLOURS = 8; // that can be told apart; further arms are drawn together
const FEWEST = 15; // rewards below which a mean says nothing

// The arms that are drawn, the most taken first, and the others together.
function series(answer) {
  const { arms, entries } = answer;
  const sizes = arms.map((_, k) => entries.reduce((sum, entry) => sum + entry.shares[k] * entry.decisions, 0));
  const places = arms.map((_, k) => k).filter((k) => sizes[k] > 0).sort((a, b) => sizes[b] - sizes[a] || a - b);
  const own = places.length > COLOURS ? places.slice(0, COLOURS - 1) : places;
  const found = own.map((k, colour) => ({ name: arms[k], places: [k], colour }));
  const rest = places.slice(own.length);
  if (rest.length) found.push({ name: plural(rest.length, "other arm"), places: rest, colour: COLOURS });
  return found;
}

function valuesOf(one, entry) {
  const share = one.places.reduce((sum, k) => sum + entry.shares[k], 0);
  const mean = one.places.length === 1 ? entry.means[one.places[0]] : null;
  return { share, mean: share * entry.decisions >= FEWEST ? mean : null };
}

function lineOf(points) {
  let path = "";
  points.forEach(([x, y], k) => {
    if (y === null) return;
    path += `${k && points[k - 1][1] !== null ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`;
  });
  return path;
}

function part(title, hint) {
  const graph = svg("svg", { class: "timeline", "aria-hidden": "true" });
  const words = h("p", { class: "chart-title" }, title, " ", h("span", { class: "hint" }, hint));
  return { element: h("div", null, words, graph), graph };
}

export function curvesCard() {
  const caption = freshId("curves");
  const band = `with its ${CONFIDENCE} interval; dashed: what choosing at random would earn`;
  const earned = part("Mean reward per decision", band);
  const shares = part("Share of each arm", "of all decisions");
  const means = part("Mean reward of each arm", "when it was taken");
  const key = h("ul", { class: "legend" });
  const readout = h("p", { class: "readout" });
  const per = h("span", { class: "hint" });
  const box = h(
    "div",
    { class: "timeline-box curves", tabindex: "0", role: "slider", "aria-labelledby": caption, "aria-valuemin": "0" },
    earned.element,
    shares.element,
    means.element,
  );
  const head = h("thead");
  const table = h("tbody");
  const element = h(
    "section",
    { class: "card", hidden: true },
    h("div", { class: "card-head" }, h("h2", { id: caption }, "How it went"), per),
    h("figure", { class: "chart" }, key, box, readout),
    h(
      "details",
      null,
      h("summary", null, "As a table"),
      h("div", { class: "scroll-y scroll-x", tabindex: "0", role: "region", "aria-label": "How it went, as a table" },
        h("table", { class: "plain small curves-table" }, head, table)),
    ),
  );

  let data = null; // { entries, arms, stretch, random }
  let drawn = null;
  let cursor = null;

  function say(entry) {
    const each = data.arms.map((one) => `${one.name} ${percent(valuesOf(one, entry).share)}`).join(", ");
    const range = entry.low === null ? "" : ` (${between(entry.low, entry.high)})`;
    const size = plural(entry.decisions, "decision");
    return `From ${moment(entry.start, false)}: ${size}, mean reward ${number(entry.earned)}${range}; ${each}`;
  }

  function point() {
    for (const { graph } of [earned, shares, means]) graph.querySelector(".cursor")?.remove();
    const entries = data?.entries ?? [];
    const index = drawn && cursor !== null ? entries.findIndex((entry) => entry.start === cursor) : -1;
    box.setAttribute("aria-valuemax", String(Math.max(entries.length - 1, 0)));
    const shown = index < 0 ? entries.length - 1 : index;
    box.setAttribute("aria-valuenow", String(Math.max(shown, 0)));
    box.setAttribute("aria-valuetext", entries.length ? say(entries[shown]) : "");
    if (index < 0) {
      cursor = null;
      setText(readout, "Point at the charts, or use the arrow keys, to read them.");
      return;
    }
    const x = drawn.x(entries[index].start);
    for (const { graph } of [earned, shares, means]) {
      graph.prepend(svg("rect", { class: "cursor", x, width: drawn.bar, y: 0, height: PART.top + PART.height }));
    }
    setText(readout, say(entries[index]));
  }

  function size(graph, width, axis) {
    graph.setAttribute("width", width);
    graph.setAttribute("height", PART.top + PART.height + (axis ? AXIS : 6));
  }

  function draw() {
    const width = box.clientWidth;
    if (!data || width < 100) return;
    const { entries, arms, stretch, random } = data;
    const first = entries[0].start;
    const last = entries.at(-1).start + stretch * 1000;
    const x = (time) => LEFT + ((time - first) / (last - first)) * (width - LEFT - RIGHT);
    const bar = (stretch * 1000 * (width - LEFT - RIGHT)) / (last - first);
    drawn = { x, bar };
    const middle = (entry) => x(entry.start) + bar / 2;
    const bottom = PART.top + PART.height;
    const axis = () => timeAxis(first, last, width, x, bottom);

    const ends = entries.flatMap((entry) => [entry.earned, entry.low, entry.high]).filter((value) => value !== null);
    const above = frame(PART, width, extent(random === null ? ends : [...ends, random], 0.08), number);
    const known = entries.filter((entry) => entry.low !== null);
    const there = known.map((entry) => `${middle(entry).toFixed(1)},${above.y(entry.high).toFixed(1)}`);
    const back = known.map((entry) => `${middle(entry).toFixed(1)},${above.y(entry.low).toFixed(1)}`).reverse();
    const line = { class: "baseline", x1: LEFT, x2: width - RIGHT };
    const places = entries.map((entry) => [middle(entry), entry.earned === null ? null : above.y(entry.earned)]);
    size(earned.graph, width, true);
    earned.graph.replaceChildren(
      ...above.lines,
      ...(known.length > 1 ? [svg("polygon", { class: "band", points: [...there, ...back].join(" ") })] : []),
      ...(random === null ? [] : [svg("line", { ...line, y1: above.y(random), y2: above.y(random) })]),
      svg("path", { class: "mean", d: lineOf(places) }),
      ...places.filter(([, y]) => y !== null).map(([cx, cy]) => svg("circle", { class: "mean-dot", cx, cy, r: 2 })),
      ...axis(),
    );

    const whole = frame(PART, width, [0, 1], (value) => percent(value));
    const bars = entries.flatMap((entry) => {
      let from = 0;
      return arms.map((one) => {
        const { share } = valuesOf(one, entry);
        const y = whole.y(from + share);
        const height = Math.max(whole.y(from) - y, 0);
        from += share;
        const across = { x: x(entry.start) + 0.5, width: Math.max(bar - 1, 0.5) };
        return svg("rect", { class: `arm-${one.colour}`, ...across, y, height });
      });
    });
    size(shares.graph, width, true);
    shares.graph.replaceChildren(...whole.lines, ...bars, ...axis());

    const rows = arms.map((one) => {
      const points = entries.map((entry) => [middle(entry), valuesOf(one, entry).mean]);
      return { one, points };
    });
    const values = rows.flatMap(({ points }) => points.map(([, value]) => value)).filter((value) => value !== null);
    const below = frame(PART, width, extent(values, 0.08), number);
    size(means.graph, width, true);
    means.graph.replaceChildren(
      ...(values.length ? below.lines : []),
      ...rows.flatMap(({ one, points }) => {
        const placed = points.map(([at, value]) => [at, value === null ? null : below.y(value)]);
        const name = `arm-${one.colour}`;
        const dots = placed.filter(([, y]) => y !== null).map(([cx, cy]) => svg("circle", { class: name, cx, cy, r: 2 }));
        return [svg("path", { class: `line ${name}`, d: lineOf(placed) }), ...dots];
      }),
      ...axis(),
    );
    point();
  }

  function follow(event) {
    if (!drawn) return;
    const at = event.clientX - box.getBoundingClientRect().left;
    cursor = (data.entries.findLast((entry) => drawn.x(entry.start) <= at) ?? data.entries[0]).start;
    point();
  }

  box.addEventListener("pointermove", follow);
  box.addEventListener("pointerdown", follow);
  box.addEventListener("pointerleave", () => {
    if (document.activeElement !== box) cursor = null;
    point();
  });
  box.addEventListener("blur", () => {
    cursor = null;
    point();
  });
  box.addEventListener("keydown", (event) => {
    if (!drawn) return;
    const { entries } = data;
    const end = entries.length - 1;
    const now = cursor === null ? end + 1 : entries.findIndex((entry) => entry.start === cursor);
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: end }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    cursor = entries[Math.min(Math.max(to, 0), end)].start;
    point();
  });
  const resized = new ResizeObserver(draw);
  resized.observe(box);

  function tell() {
    const names = data.arms.map((one) => [one.name, "text"]);
    head.replaceChildren(...headRow([["From"], ["Decisions", "text"], ["Mean reward", "text"], ...names]).children);
    table.replaceChildren();
    const rows = [...data.entries].reverse().map((entry) => {
      const parts = data.arms.map((one) => percent(valuesOf(one, entry).share));
      const cells = [count(entry.decisions), number(entry.earned), ...parts].map((text) => h("td", { class: "text" }, text));
      return h("tr", null, h("th", { scope: "row" }, moment(entry.start, false)), ...cells);
    });
    table.append(...rows);
  }

  return {
    element,
    draw(found) {
      const answer = found.over_time;
      setHidden(element, !answer?.entries.length);
      if (!answer?.entries.length) return;
      const random = found.gains.find((one) => one.over === "random")?.gain;
      data = {
        entries: answer.entries.map((entry) => ({ ...entry, start: timeOf(entry.time) })),
        arms: series(answer),
        stretch: answer.stretch,
        random: random && found.earned ? found.earned.value - random.value : null,
      };
      setText(per, `per ${stretchName(answer.stretch)}`);
      keyed(key, data.arms, (one) => `${one.colour} ${one.name}`, (one) => ({
        element: h("li", null, h("span", { class: `key arm-${one.colour}` }), label(one.name)),
      }));
      tell();
      draw();
    },
    stop() {
      resized.disconnect();
    },
  };
}
