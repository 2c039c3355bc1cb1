"""The style sheet of an exported page: light and dark, for screen and print."""

STYLESHEET = """\
:root {
  color-scheme: light dark;
  --back: #ffffff; --text: #1d2127; --dim: #626b77; --line: #dfe3e8; --soft: #f5f6f8;
  --user: #eaf2fd; --mark: #2563b8; --good: #1a7f37; --bad: #c22f2b; --add: #dcf5e3; --del: #fde4e3;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #14171b; --text: #dfe3e8; --dim: #929ba7; --line: #2c323a; --soft: #1c2026;
    --user: #1b2838; --mark: #79b0f5; --good: #56c271; --bad: #f1827d; --add: #17351f;
    --del: #41201f;
  }
}
* { box-sizing: border-box; }
body {
  max-width: 54rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; background: var(--back);
  color: var(--text); font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  overflow-wrap: break-word;
}
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .75rem; }
h2 {
  font-size: .85rem; font-weight: 600; color: var(--dim); margin: 2.75rem 0 1rem;
  padding-bottom: .35rem; border-bottom: 1px solid var(--line); display: flex; gap: .75rem;
}
h2 time { font-weight: 400; margin-inline-start: auto; }
h2 a { color: inherit; }
h3, h4, h5, h6 { font-size: 1.05rem; line-height: 1.35; margin: 1.4em 0 .5em; }
a { color: var(--mark); text-decoration: none; }
a:hover { text-decoration: underline; }
dl {
  display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: 0;
  color: var(--dim); font-size: .875rem;
}
dt { font-weight: 600; }
dd { margin: 0; min-width: 0; }
code, pre { font: .84em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
code { background: var(--soft); border-radius: 4px; padding: .12em .35em; }
pre {
  background: var(--soft); border: 1px solid var(--line); border-radius: 8px;
  padding: .7rem .9rem; margin: .75rem 0; overflow: auto; max-height: 32rem; tab-size: 4;
}
pre code { background: none; padding: 0; font-size: 1em; }
p, ul, ol, blockquote, table { margin: .75rem 0; }
ul, ol { padding-inline-start: 1.5rem; }
blockquote {
  border-inline-start: 3px solid var(--line); padding-inline-start: 1rem; color: var(--dim);
}
table { border-collapse: collapse; display: block; overflow-x: auto; font-size: .92em; }
th, td { border: 1px solid var(--line); padding: .3rem .65rem; text-align: start; }
th { background: var(--soft); }
img { max-width: 100%; border-radius: 8px; }
hr { border: 0; border-top: 1px solid var(--line); margin: 1.5rem 0; }
summary { cursor: pointer; }
nav { margin-top: 1.25rem; font-size: .9rem; }
nav summary { color: var(--dim); }
section:target h2 { border-color: var(--mark); }
.user {
  background: var(--user); border-radius: 12px; padding: .8rem 1.1rem; margin: 1rem 0;
}
.user .text { white-space: pre-wrap; }
.user > :first-child, .agent > :first-child { margin-top: 0; }
.user > :last-child, .agent > :last-child { margin-bottom: 0; }
.agent { margin: 1rem 0; }
.thought, .other { color: var(--dim); font-size: .92rem; margin: .75rem 0; }
.thought > div { border-inline-start: 3px solid var(--line); padding-inline-start: 1rem; }
.subagent {
  border-inline-start: 3px solid var(--line); padding-inline-start: 1rem; margin: .75rem 0;
}
.call {
  border: 1px solid var(--line); border-radius: 8px; margin: .5rem 0; padding: .4rem .8rem;
  font-size: .9rem;
}
.call small { color: var(--dim); }
.call.completed .mark { color: var(--good); }
.call.failed .mark, .call.cancelled .mark { color: var(--bad); }
.diff span { display: inline-block; min-width: 100%; }
.diff .add { background: var(--add); }
.diff .del { background: var(--del); }
.diff .at { color: var(--dim); }
.plan { list-style: none; padding: 0; }
.plan .done { color: var(--dim); }
.note { color: var(--dim); font-size: .9rem; }
.problem { color: var(--bad); font-size: .9rem; }
.link { text-decoration: underline dotted; }
footer { margin-top: 3rem; color: var(--dim); font-size: .8rem; }
@media print {
  body { max-width: none; padding: 0; }
  pre { max-height: none; white-space: pre-wrap; }
  nav { display: none; }
}
"""
