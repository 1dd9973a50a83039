// Numbers and times as people read them.

export const CONFIDENCE = "90%";
export const Z = 1.6449; // standard deviations to either side of an interval
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const three = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
export const NONE = "–";

export function count(value) {
  return value === null || value === undefined ? NONE : whole.format(value);
}

export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(2);
  return three.format(value === 0 ? 0 : value);
}

export function percent(share) {
  if (share === null || share === undefined || !Number.isFinite(share)) return NONE;
  if (share > 0 && share < 1e-4) return "<0.01%";
  if (share < 1 && share > 0.9999) return ">99.99%";
  return `${three.format(share * 100)}%`;
}

// What is expected, with its 90 % interval: a share where rewards are 0 or 1, a rate where they are counts,
// money where they are revenue.
export function rate(family, { mean, low, high }) {
  const text = family === "binary" ? percent : number;
  return `${text(mean)} (${text(low)} to ${text(high)})`;
}

// What coefficients are of.
export function scale(family) {
  return { binary: "logit per unit", count: "log rate per unit", revenue: "logit of a purchase per unit" }[family] ?? "reward per unit";
}

// The interval of an expected reward, of which mean and standard deviation are known: on the scale of its link, where
// beliefs are Gaussian, so that rates stay above 0 and probabilities below 1.
export function intervalOf(family, mean, sd) {
  const half = Z * sd;
  if (family === "binary" && mean > 0 && mean < 1) {
    const [at, reach] = [Math.log(mean / (1 - mean)), half / (mean * (1 - mean))];
    return [at - reach, at + reach].map((logit) => 1 / (1 + Math.exp(-logit)));
  }
  if ((family === "count" || family === "revenue") && mean > 0) {
    const spread = Math.sqrt(Math.log1p((sd / mean) ** 2));
    const at = Math.log(mean) - spread ** 2 / 2;
    return [Math.exp(at - Z * spread), Math.exp(at + Z * spread)];
  }
  return [mean - half, mean + half];
}

// An interval in words: 0.9 to 1.5.
export function between(low, high) {
  return low === null || high === null || low === undefined ? NONE : `${number(low)} to ${number(high)}`;
}

// A probability as people say it: whole percents, and no certainty that there is not.
export function chance(share) {
  if (share === null || share === undefined || !Number.isFinite(share)) return NONE;
  if (share < 0.01) return "<1%";
  if (share > 0.99) return ">99%";
  return `${whole.format(share * 100)}%`;
}

// Messages of the API begin small, as parts of a line of a log.
export function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

// Seconds as the two largest units: 42 s, 5 min, 3 h 10 min, 2 d 4 h.
export function age(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return NONE;
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  const [large, small, names] = s < 86400 ? [3600, 60, ["h", "min"]] : [86400, 3600, ["d", "h"]];
  const rest = Math.floor((s % large) / small);
  return `${whole.format(Math.floor(s / large))} ${names[0]}${rest ? ` ${rest} ${names[1]}` : ""}`;
}

export function stretch(seconds) {
  const units = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];
  const [size, name] = units.find(([size]) => seconds % size === 0) ?? [1, "second"];
  return seconds === size ? name : `${whole.format(seconds / size)} ${name}s`;
}

export function bytes(size) {
  if (size < 1000) return `${size} bytes`;
  const power = Math.min(Math.floor(Math.log10(size) / 3), 4);
  return `${three.format(size / 1000 ** power)} ${["", "kB", "MB", "GB", "TB"][power]}`;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const clockSeconds = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const weekday = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric" });
const dayYear = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

export function timeOf(iso) {
  return typeof iso === "number" ? iso * 1000 : Date.parse(iso);
}

export const hourMinute = (time) => clock.format(time);
export const shortDay = (time) => day.format(time);
export const dayName = (time) => weekday.format(time);
export const fullDay = (time) => (Number.isFinite(time) ? dayYear.format(time) : NONE);

// The time zone that all times are shown in: that of whoever looks.
export function zone() {
  const { timeZone } = new Intl.DateTimeFormat().resolvedOptions();
  const minutes = -new Date().getTimezoneOffset();
  const size = Math.abs(minutes);
  const rest = size % 60 ? `:${String(size % 60).padStart(2, "0")}` : "";
  return `${timeZone}, UTC${minutes < 0 ? "−" : "+"}${Math.floor(size / 60)}${rest}`;
}

export function moment(time, seconds = true) {
  if (!Number.isFinite(time)) return NONE;
  const date = new Date(time).getFullYear() === new Date().getFullYear() ? day : dayYear;
  return `${date.format(time)}, ${(seconds ? clockSeconds : clock).format(time)}`;
}
