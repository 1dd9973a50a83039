// Round numbers for axes.

function niceStep(range, most) {
  const rough = range / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 5, 10].find((candidate) => candidate * power >= rough * 0.999) ?? 10;
  return factor * power;
}

export function ticks(low, high, most) {
  if (!(high > low)) return [low];
  const step = niceStep(high - low, most);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) found.push(k === 0 ? 0 : k * step);
  return found;
}

// The extent of the values with a little air; never empty.
export function extent(values, air = 0.06) {
  const finite = values.filter((value) => Number.isFinite(value));
  if (!finite.length) return [-1, 1];
  let low = Math.min(...finite);
  let high = Math.max(...finite);
  if (low === high) [low, high] = [low - Math.max(Math.abs(low), 1) * 0.5, high + Math.max(Math.abs(high), 1) * 0.5];
  const room = (high - low) * air;
  return [low - room, high + room];
}

const MINUTE = 60_000;
const MINUTES = [1, 5, 10, 15, 30, 60, 120, 180, 360, 720];
const DAYS = [1, 2, 3, 7, 14, 28, 91, 364];
const TIMES = [...MINUTES, ...DAYS.map((days) => days * 1440)].map((minutes) => minutes * MINUTE);

// Times on round hours or days of the reader's clock, at most so many.
export function timeTicks(start, end, most) {
  const step = TIMES.find((size) => (end - start) / size <= most) ?? TIMES.at(-1);
  const first = new Date(start);
  first.setHours(0, 0, 0, 0);
  const found = [];
  if (step >= 86400_000) {
    // Days have 23 to 25 hours where clocks change, so they are counted by the calendar.
    for (const date = first; date <= end; date.setDate(date.getDate() + step / 86400_000)) {
      if (date >= start) found.push(date.getTime());
    }
  } else {
    for (let time = first.getTime(); time <= end; time += step) if (time >= start) found.push(time);
  }
  return { step, times: found };
}
