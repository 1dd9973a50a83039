// Text whose contrast with what is behind it is below WCAG AA.
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    const hasText = [...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.textContent.trim());
    if (!hasText || !node.checkVisibility() || node.disabled || node.closest(".hidden-text, .skip, option")) continue;
    const style = getComputedStyle(node);
    const front = light(rgba(node instanceof SVGElement ? style.fill : style.color));
    const back = light(behind(node instanceof SVGElement ? node.closest("svg").parentElement : node));
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    const least = parseFloat(style.fontSize) >= 24 ? 3 : 4.5;
    if (ratio < least) poor.push([node.tagName, String(node.getAttribute("class")), node.textContent.slice(0, 30), ratio]);
  }
  return poor;
};
