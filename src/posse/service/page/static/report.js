// The report of posse report. It is a page of its own, whose styles and script the rules of this page would not let in:
// it is put into a frame node by node, its styles as style sheets and its script as a file of this service.

import { open, path } from "./api.js";
import { empty, h, setHidden, setText } from "./dom.js";
import { sentence } from "./format.js";

const WAIT = {
  making: ["The report is being made", "This takes some seconds, in the background."],
  empty: ["Nothing to report yet", "It needs ten rewards at least."],
};
const LEFT_OUT = "meta[http-equiv], link, script:not([type='application/json'])";

// A parsed page obeys the rules of this one, so styles are taken out before. Quotes of labels are escaped in the
// report: what looks like an attribute is one.
function clean(text) {
  const styles = [];
  const plain = text
    .replace(/<style>(.*?)<\/style>/gsu, (_, style) => {
      styles.push(style);
      return "";
    })
    .replaceAll(' style="', ' data-style="');
  const parsed = new DOMParser().parseFromString(plain, "text/html");
  for (const node of parsed.querySelectorAll(LEFT_OUT)) node.remove();
  return { parsed, styles: styles.join("\n") };
}

export function reportPanel({ fleet }) {
  let shown = null; // the text of the report that is in the frame
  let page = "";
  let styles = "";
  let sheet = null;
  const frame = h("iframe", { class: "report", title: "Report", hidden: true });
  const missing = empty("", "");
  const save = h("button", { type: "button", onclick: download }, "Save as a file");
  const print = h("button", { type: "button", onclick: () => frame.contentWindow.print() }, "Print");
  const tools = h("div", { class: "pages", hidden: true }, save, print);
  const element = h("div", { class: "stack" }, missing, tools, frame);
  const resized = new ResizeObserver(fit);

  function fit() {
    const root = frame.contentDocument?.documentElement;
    if (root && !frame.hidden) frame.style.height = `${root.scrollHeight + 2}px`;
  }

  // The report goes by what the system prefers; a choice that was made on this page wins.
  function themed() {
    if (!sheet) return;
    const { theme } = document.documentElement.dataset;
    const dark = { dark: "all", light: "not all" }[theme] ?? "(prefers-color-scheme: dark)";
    sheet.replaceSync(styles.replaceAll("(prefers-color-scheme: dark)", dark));
    frame.contentDocument.documentElement.style.colorScheme = theme ?? "";
  }

  function download() {
    const address = URL.createObjectURL(new Blob([page], { type: "text/html" }));
    h("a", { href: address, download: `${fleet}-report.html` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  }

  function draw(text) {
    const cleaned = clean(text);
    styles = cleaned.styles;
    const inside = frame.contentDocument;
    const root = inside.importNode(cleaned.parsed.documentElement, true);
    inside.replaceChild(root, inside.documentElement);
    for (const node of inside.querySelectorAll("[data-style]")) node.style.cssText = node.dataset.style;
    sheet = new frame.contentWindow.CSSStyleSheet();
    inside.adoptedStyleSheets = [sheet];
    const script = inside.createElement("script");
    script.src = new URL("static/report-page.js", location.href).href;
    inside.body.append(script);
    themed();
    resized.disconnect();
    resized.observe(inside.body);
  }

  const theme = new MutationObserver(themed);
  theme.observe(document.documentElement, { attributeFilter: ["data-theme"] });

  return {
    element,
    seconds: 30,
    accepts: () => true,
    show() {},
    async load(signal) {
      const response = await open(path("fleets", fleet, "report"), { signal });
      if (response.status !== 200) {
        const { state, problem } = await response.json();
        const [title, line] = WAIT[state] ?? ["There is no report", sentence(problem ?? "")];
        setText(missing.firstElementChild, title);
        setText(missing.lastElementChild, line);
        setHidden(missing, shown !== null);
        return state === "making" ? 1 : undefined;
      }
      page = await response.text();
      setHidden(missing, true);
      setHidden(tools, false);
      setHidden(frame, false);
      // What the reader does there, sorting say, is not undone: a newer report is shown when the tab is opened again.
      if (shown === null) {
        draw(page);
        shown = page;
      }
      return undefined;
    },
    stop() {
      resized.disconnect();
      theme.disconnect();
    },
  };
}
