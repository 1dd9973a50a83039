// Light or dark: the system's choice until the button is pressed. Not a module, so that it runs before the first paint.
"use strict";
(() => {
  const STORED = "posse-theme";
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");

  function stored() {
    try {
      return localStorage.getItem(STORED);
    } catch {
      return null; // storage may be switched off
    }
  }

  function isDark() {
    return root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
  }

  const chosen = stored();
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const name = () => {
      button.textContent = isDark() ? "Light" : "Dark";
      button.setAttribute("aria-label", isDark() ? "Light colours" : "Dark colours");
    };
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try {
        localStorage.setItem(STORED, root.dataset.theme);
      } catch {
        // it holds until the page is closed
      }
      name();
    });
    system.addEventListener("change", name);
    name();
  });
})();
