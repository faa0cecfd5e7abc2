// Search, the theme, and the menu. The search index is a script, so that it also loads from a folder on disk.
const root = document.currentScript.dataset.root;
const $ = (id) => document.getElementById(id);

function showTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $("theme").textContent = theme === "dark" ? "Light" : "Dark";
}
const stored = localStorage.getItem("theme");
showTheme(stored ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
$("theme").addEventListener("click", () => {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("theme", theme);
  showTheme(theme);
});
document.querySelector(".menu").open = matchMedia("(min-width: 52rem)").matches;

let index;
function loadIndex() {
  index ??= new Promise((resolve) => {
    const script = document.createElement("script");
    script.src = `${root}search-index.js`;
    script.addEventListener("load", () => resolve(window.PAGES));
    document.head.append(script);
  });
  return index;
}

// Every word has to occur; a hit in a heading counts more than one in the text.
function score(section, words) {
  let total = 0;
  for (const word of words) {
    const hit =
      (section.p.toLowerCase().includes(word) ? 6 : 0) +
      (section.h.toLowerCase().includes(word) ? 5 : 0) +
      (section.t.toLowerCase().includes(word) ? 1 : 0);
    if (hit === 0) return 0;
    total += hit;
  }
  return section.u.startsWith("decisions/") ? total / 2 : total;
}

function excerpt(text, words) {
  const at = Math.max(0, text.toLowerCase().indexOf(words[0]) - 40);
  return (at > 0 ? "…" : "") + text.slice(at, at + 140);
}

async function search() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const sections = words.length > 0 ? await loadIndex() : [];
  const found = sections
    .map((section) => ({ section, score: score(section, words) }))
    .filter((hit) => hit.score > 0)
    .sort((a, b) => b.score - a.score)
    .slice(0, 12);
  const items = found.map(({ section }) => {
    const link = document.createElement("a");
    link.href = root + section.u;
    link.textContent = section.p === section.h ? section.p : `${section.p}: ${section.h}`;
    const about = document.createElement("small");
    about.textContent = excerpt(section.t, words);
    link.append(about);
    const item = document.createElement("li");
    item.append(link);
    return item;
  });
  if (words.length > 0 && items.length === 0) {
    const none = document.createElement("li");
    none.textContent = "Nothing found";
    items.push(none);
  }
  $("results").replaceChildren(...items);
  $("results").hidden = items.length === 0;
}

$("search").addEventListener("input", search);
$("search").addEventListener("keydown", (event) => {
  if (event.key === "Enter") $("results").querySelector("a")?.click();
});
document.addEventListener("keydown", (event) => {
  const isTyping = event.target instanceof HTMLInputElement;
  if (event.key === "/" && !isTyping) {
    event.preventDefault();
    $("search").focus();
  } else if (event.key === "Escape") {
    $("results").hidden = true;
  }
});
document.addEventListener("click", (event) => {
  if (!event.target.closest(".search")) $("results").hidden = true;
});
