"""The style of a page and of a notebook's cell, with the colours of the palette as CSS variables."""

from __future__ import annotations

from hypar.reports.palette import DIMS, PAGE, TIMES

SANS = 'system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",Arial,sans-serif'
MONO = 'ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace'
ON_FORWARD = "in_channels"
"""The dim whose cells have the text that is legible on boxes of the forward phase too."""

EXACT = "-webkit-print-color-adjust:exact;print-color-adjust:exact"
"""Declarations that keep the colours of marks in print."""


def _variables(*, dark: bool) -> str:
    """Return the colours of one scheme as declarations of variables."""
    shades = {**PAGE, **TIMES}
    found = {name: shade.dark if dark else shade.light for name, shade in shades.items()}
    for dim, colours in DIMS.items():
        found[dim] = colours.dark if dark else colours.light
        found[f"{dim}-t"] = colours.dark_text if dark else colours.light_text
    return "".join(f"--{name}:{colour};" for name, colour in found.items())


def variables(*, notebook: bool) -> str:
    """Return the colours of both schemes; a notebook's cell also follows the notebook's own scheme."""
    light, dark = _variables(dark=False), _variables(dark=True)
    own = ".hy" if notebook else ":root"
    found = (
        f"{own}{{{light}}}\n"
        f"@media (prefers-color-scheme:dark){{{own}{{{dark}}}}}\n"
        f"@media print{{{own}{{{light}}}}}\n"
    )
    if notebook:
        found += f'[data-jp-theme-light="true"] .hy,.vscode-light .hy{{{light}}}\n'
        found += f'[data-jp-theme-light="false"] .hy,.vscode-dark .hy{{{dark}}}\n'
        return found
    return f":root{{color-scheme:light dark}}\n{found}@media print{{:root{{color-scheme:light}}}}\n"


def _cells() -> str:
    """Return the colours of a cell in each dim."""
    return "".join(f".hy .{dim}{{background:var(--{dim});color:var(--{dim}-t)}}" for dim in DIMS)


def _times() -> str:
    """Return the colours of a bar of each kind of time."""
    return "".join(f".hy .{kind}{{background:var(--{kind})}}" for kind in TIMES)


CELL = f"""\
.hy,.hy *{{box-sizing:border-box}}
.hy{{font:15px/1.5 {SANS};color:var(--ink);background:var(--ground);-webkit-text-size-adjust:100%;--u:2.1rem}}
.hy p{{margin:.35rem 0;max-width:76ch}}
.hy .title{{font-weight:650;font-size:1.05rem}}
.hy .note{{color:var(--muted);font-size:.875rem}}
.hy .muted{{color:var(--muted)}}
.hy code,.hy .m,.hy pre{{font-family:{MONO};font-size:.87em}}
.hy .n{{font-variant-numeric:tabular-nums;white-space:nowrap}}
.hy .x{{overflow-x:auto;max-width:100%}}
.hy .x:focus-visible,.hy summary:focus-visible,.hy a:focus-visible,.hy pre:focus-visible{{outline:2px solid var(--ink);outline-offset:2px}}
.hy table{{border-collapse:collapse;font-size:.875rem;margin:0}}
.hy tr,.hy td,.hy th{{background:none}}
.hy th{{font-weight:600;text-align:left}}
.hy td,.hy th{{padding:.28rem .8rem .28rem 0;vertical-align:middle;text-align:left;border:0}}
.hy td.r,.hy th.r{{text-align:right}}
.hy thead th{{white-space:nowrap;color:var(--muted);font-weight:500;border-bottom:1px solid var(--rule);vertical-align:bottom}}
.hy thead tr:not(:last-child) th{{border:0}}
.hy tbody tr+tr>*{{border-top:1px solid var(--line)}}
.hy tfoot>tr>*{{border-top:1px solid var(--rule)}}
.hy th.m,.hy tfoot th{{white-space:nowrap}}
.hy tr.this>*{{background:var(--surface)}}
.hy tr.this>:first-child{{box-shadow:inset 3px 0 0 var(--ink);padding-left:.6rem}}
.hy .strip{{display:inline-flex;gap:2px;vertical-align:middle}}
.hy .strip.h>span{{width:calc(var(--u)*var(--k,1));text-align:center;overflow:hidden}}
.hy .cell{{display:inline-flex;height:1.45rem;border-radius:3px;overflow:hidden}}
.hy .cell i{{font:500 .78rem/1.45rem {MONO};display:block;width:calc(var(--u)*var(--k,1));text-align:center;white-space:nowrap;overflow:hidden;{EXACT}}}
.hy .cell .whole{{box-shadow:inset 0 0 0 1px var(--rule);border-radius:3px}}
.hy .w2{{--u:1.7rem}}.hy .w3{{--u:1.35rem}}.hy .w3 i{{font-size:.75rem}}
.hy .sw{{display:inline-block;width:1.05em;height:1.05em;border-radius:2px;vertical-align:-.15em;margin-right:.4em;{EXACT}}}
.hy ul.legend{{list-style:none;display:flex;flex-wrap:wrap;gap:.25rem 1.1rem;padding:0;margin:.5rem 0;font-size:.875rem}}
.hy .flag{{font-size:.8rem;border:1px solid var(--rule);border-radius:3px;padding:0 .35em;white-space:nowrap}}
.hy .alarm{{border-left:4px solid var(--ink);padding-left:.6rem;font-weight:600}}
{_cells()}
"""
"""The style that a page and a notebook's cell share."""

PAGE_STYLE = f"""\
body.hy{{margin:0}}
.hy main{{max-width:66rem;margin:0 auto;padding:1.6rem 1.25rem 4rem}}
.hy section{{margin-top:2.6rem;scroll-margin-top:1rem}}
.hy h1{{font-size:1.8rem;line-height:1.2;font-weight:650;margin:.2rem 0 .4rem;letter-spacing:-.01em;text-wrap:balance;overflow-wrap:anywhere}}
.hy h2{{font-size:1.2rem;line-height:1.3;font-weight:650;margin:0 0 .15rem}}
.hy h3{{font-size:.95rem;font-weight:650;margin:1.2rem 0 .4rem}}
.hy .lead{{font-size:1.05rem}}
.hy .eyebrow{{color:var(--muted);font-size:.875rem;margin:0}}
.hy a{{color:inherit;text-underline-offset:2px}}
.hy nav{{font-size:.875rem;margin:.9rem 0 0;display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;color:var(--muted)}}
.hy footer{{margin-top:3rem;color:var(--muted);font-size:.84rem;border-top:1px solid var(--line);padding-top:.8rem}}
.hy pre{{background:var(--surface);border:1px solid var(--line);border-radius:6px;padding:.7rem .9rem;margin:.5rem 0;white-space:pre-wrap;overflow-wrap:anywhere}}
.hy .any{{overflow-wrap:anywhere}}
.hy .small{{font-size:.875rem}}
.hy table.full{{width:100%}}
.hy td.wide{{width:24%;padding-right:1.2rem}}.hy td.third{{width:16%}}
.hy .bar{{display:block;height:.62rem;border-radius:1px;min-width:1px;flex:none;{EXACT}}}
.hy .bars{{display:flex;max-width:100%}}
.hy .ink{{background:var(--ink)}}
.hy .broken{{border-right:5px double var(--ground);box-shadow:4px 0 0 var(--backward)}}
{_times()}
.hy .stack{{display:flex;height:1.6rem;gap:2px;margin:.5rem 0 .2rem}}
.hy .stack>span{{min-width:2px;{EXACT}}}
.hy dl.tiles{{display:grid;grid-template-columns:repeat(4,1fr);margin:1.1rem 0 .4rem;border:1px solid var(--line);border-radius:8px;overflow:hidden}}
.hy dl.tiles>div{{padding:.75rem 1rem;box-shadow:0 0 0 .5px var(--line)}}
.hy dl.tiles dt{{color:var(--muted);font-size:.875rem}}
.hy dl.tiles dd{{margin:0}}
.hy dl.tiles .big{{font-size:1.55rem;line-height:1.25;font-weight:650;font-variant-numeric:tabular-nums;white-space:nowrap}}
.hy dl.tiles .sub{{font-size:.84rem;color:var(--muted)}}
.hy .track{{display:block;background:var(--line);height:.35rem;margin:.45rem 0 .3rem;border-radius:1px;{EXACT}}}
.hy .track b{{display:block;background:var(--ink);height:100%;border-radius:1px;min-width:2px;{EXACT}}}
.hy dd{{margin:0 0 .4rem}}
.hy .gauge{{display:flex;align-items:center;gap:.8rem;flex-wrap:wrap;margin:.6rem 0}}
.hy .gauge .track{{flex:0 1 22rem;min-width:8rem;height:.7rem;margin:0}}
.hy details{{border-top:1px solid var(--line)}}
.hy details:last-of-type{{border-bottom:1px solid var(--line)}}
.hy summary{{cursor:pointer;list-style:none;position:relative;padding:.4rem 0 .4rem 1.15rem}}
.hy summary::-webkit-details-marker{{display:none}}
.hy summary::before{{content:"";position:absolute;left:.15rem;top:.95em;width:.42em;height:.42em;border-right:1.5px solid var(--muted);border-bottom:1.5px solid var(--muted);transform:rotate(-45deg)}}
.hy details[open]>summary::before{{transform:rotate(45deg)}}
.hy details>.in{{padding:.1rem 0 .9rem 1.15rem}}
.hy .row{{display:grid;grid-template-columns:var(--cols);align-items:center;column-gap:.9rem}}
.hy .row>.r{{text-align:right}}
.hy .row.one{{padding:.4rem 0 .4rem 1.15rem;border-top:1px solid var(--line)}}
.hy .row.head{{color:var(--muted);font-size:.875rem;padding:0 0 .25rem 1.15rem}}
.hy .row .strips{{display:flex;flex-wrap:wrap;gap:.15rem .8rem;align-items:center}}
.hy .near{{display:inline-flex;gap:.2rem .9rem;flex-wrap:nowrap}}
.hy figure{{margin:.8rem 0 0}}
.hy svg{{display:block;max-width:none;{EXACT}}}
.hy svg.fit{{width:100%;height:auto}}
.hy svg text{{font-family:{SANS};fill:var(--ink);font-variant-numeric:tabular-nums}}
.hy svg .mt{{fill:var(--muted)}}.hy svg .mono{{font-family:{MONO}}}
.hy svg .gl{{stroke:var(--line)}}.hy svg .rl{{stroke:var(--rule)}}
.hy svg .box{{fill:var(--surface);stroke:var(--rule)}}.hy svg .on{{fill:var(--ground)}}.hy svg .on-forward{{fill:var(--{ON_FORWARD}-t)}}
{"".join(f".hy svg .{kind}{{fill:var(--{kind})}}" for kind in TIMES)}
.hy .only-s{{display:none}}
@media screen and (max-width:640px){{.hy main{{padding:1rem .85rem 3rem}}.hy h1{{font-size:1.4rem}}.hy .lead{{font-size:1rem}}.hy section{{margin-top:2rem}}.hy dl.tiles{{grid-template-columns:1fr 1fr}}.hy dl.tiles .big{{font-size:1.25rem}}.hy dl.tiles>div{{padding:.55rem .7rem}}.hy .hide-s{{display:none}}.hy .only-s{{display:block}}.hy .strip{{--u:1.55rem}}.hy .w2{{--u:1.45rem}}.hy .w3{{--u:1.3rem}}.hy .cell i{{font-size:.7rem}}.hy td,.hy th{{padding-right:.5rem}}.hy table{{font-size:.8rem}}.hy .x th[scope=row]{{position:sticky;left:0;background:var(--ground)}}.hy .row{{grid-template-columns:minmax(0,1fr) auto}}.hy .row>.strips{{grid-column:1/-1;grid-row:2}}}}
@media print{{@page{{margin:14mm}}.hy tfoot{{display:table-row-group}}.hy{{font-size:10.5pt;--u:1.6rem}}.hy main{{max-width:none;padding:0}}.hy nav{{display:none}}.hy dl.tiles .big{{font-size:15pt}}.hy section{{margin-top:1.4rem}}.hy figure,.hy .keep,.hy dl.tiles,.hy tr,.hy h2,.hy h3,.hy summary{{break-inside:avoid}}.hy h2,.hy h3,.hy .note,.hy ul.legend{{break-after:avoid}}.hy .x{{overflow:visible}}.hy .x svg{{max-width:100%;height:auto}}.hy details.p::details-content{{content-visibility:visible;height:auto}}.hy summary::before{{display:none}}}}
"""
"""The style of the page around its parts."""


def page_style() -> str:
    """Return the style of a page."""
    return variables(notebook=False) + CELL + PAGE_STYLE


def cell_style() -> str:
    """Return the style of a notebook's cell."""
    return variables(notebook=True) + CELL
