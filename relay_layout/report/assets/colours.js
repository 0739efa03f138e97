// One colour for each layout, the most frequent ones first; red is left to transforms.

const SHADES = 7;

class Colours {
  constructor(nodes) {
    const counts = new Map();
    for (const node of nodes) {
      for (const side of ['before', 'after']) {
        const layout = layoutOf(node, side);
        counts.set(layout, (counts.get(layout) || 0) + 1);
      }
    }
    const byCount = [...counts].sort((one, other) => other[1] - one[1] || (one[0] < other[0] ? -1 : 1));
    this.places = new Map(byCount.map(([layout], place) => [layout, Math.min(place, SHADES)]));
    this.refresh();
  }

  /** Reads the theme's colours. */
  refresh() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    this.fills = Array.from({ length: SHADES + 1 }, (_, place) => read(`--c${place}`));
    this.borders = Array.from({ length: SHADES + 1 }, (_, place) => read(`--b${place}`));
    for (const name of ['red', 'edge', 'ink', 'muted', 'card', 'line', 'accent', 'bar']) this[name] = read(`--${name}`);
    this.nodeInk = read('--node-ink');
  }

  fill(layout) { return this.fills[this.places.get(layout) ?? SHADES]; }

  border(layout) { return this.borders[this.places.get(layout) ?? SHADES]; }

  legend() {
    const entries = [...this.places].filter(([, place]) => place < SHADES).map(([layout]) => [layout, layout]);
    const others = [...this.places].filter(([, place]) => place === SHADES);
    if (others.length) entries.push([others[0][0], counted(others.length, 'other layout')]);
    return entries.map(([layout, label]) => {
      const swatch = make('span', { class: 'swatch' });
      swatch.style.background = this.fill(layout);
      swatch.style.borderColor = this.border(layout);
      return make('span', {}, swatch, label);
    });
  }
}

/** The layout that a node is coloured by: that of its first result, or of what it gives out. */
function layoutOf(node, side) {
  const layouts = node[side];
  return layouts.results[0] ?? layouts.operands[0] ?? '';
}

/** "NCHW → NCHW16c" where data comes in another layout than it leaves. */
function layoutText(node, side) {
  const first = node[side].operands[0], last = layoutOf(node, side);
  return first && first !== last && node.type === 'operator' ? `${first} → ${last}` : last;
}
