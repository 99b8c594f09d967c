// What the report does besides being read: a box of figures under the pointer, and light or dark by choice, and on paper what
// is folded on a screen. All of it is there without, too:
// the browser shows the same words by itself, and follows the system's theme.

export const PAGE_SCRIPT = `
"use strict";
(function () {
  var root = document.documentElement;
  var button = document.getElementById("theme");
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  function isDark() { return root.dataset.theme === "dark" || (root.dataset.theme === undefined && dark.matches); }
  function name() { button.textContent = isDark() ? "Light" : "Dark"; }
  button.hidden = false;
  button.addEventListener("click", function () { root.dataset.theme = isDark() ? "light" : "dark"; name(); });
  dark.addEventListener("change", name);
  name();

  var opened = [];
  window.addEventListener("beforeprint", function () {
    opened = Array.from(document.querySelectorAll("details:not([open])"));
    opened.forEach(function (each) { each.open = true; });
  });
  window.addEventListener("afterprint", function () { opened.forEach(function (each) { each.open = false; }); });

  var tip = document.getElementById("tip");
  var words = new Map();
  document.querySelectorAll(".hint > title").forEach(function (title) {
    words.set(title.parentNode, title.textContent);
    title.remove();
  });
  function line(tag, text) {
    var element = document.createElement(tag);
    element.textContent = text;
    tip.appendChild(element);
  }
  function fill(text) {
    tip.textContent = "";
    var cut = text.indexOf(": ");
    if (cut > 0) line("b", text.slice(0, cut));
    text.slice(cut > 0 ? cut + 2 : 0).split("; ").forEach(function (part) { line("span", part); });
  }
  function show(event) {
    var text = words.get(event.target);
    if (text === undefined) { tip.hidden = true; return; }
    if (tip.dataset.text !== text) { tip.dataset.text = text; fill(text); }
    tip.hidden = false;
    var box = tip.getBoundingClientRect();
    var x = event.clientX + 14, y = event.clientY + 16;
    if (x + box.width > root.clientWidth - 8) x = Math.max(8, event.clientX - box.width - 12);
    if (y + box.height > window.innerHeight - 8) y = Math.max(8, event.clientY - box.height - 12);
    tip.style.transform = "translate(" + Math.round(x) + "px," + Math.round(y) + "px)";
  }
  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("scroll", function () { tip.hidden = true; }, { passive: true });
})();
`;
