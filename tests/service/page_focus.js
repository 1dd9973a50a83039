// Whether what has the focus shows it: itself, what is laid over it, or what stands for it.
() => {
  const node = document.activeElement;
  const stand = node.type === "radio" ? [node.nextElementSibling] : [];
  const styles = [getComputedStyle(node), getComputedStyle(node, "::after"), ...stand.map((each) => getComputedStyle(each))];
  return styles.some((style) => style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2);
};
