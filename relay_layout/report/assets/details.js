// The selected operator: its layouts, why it has them, what else there was, what blocked it, its kernel.

const WHY = {
  chosen: 'Brings up layouts by itself. This one costs the whole function the least.',
  follows: 'Takes the layouts around it, which costs less than keeping its own.',
  'keeps its own': 'Runs as in the imported model.',
};

class Details {
  constructor(element, target, choose) { Object.assign(this, { element, target, choose }); }

  empty() {
    this.element.replaceChildren(
      make('h2', {}, 'Click an operator'),
      make('p', { class: 'muted' }, 'to see which layout it has and why, what else there was and what that costs, and the kernel that computes it.'),
      make('p', { class: 'muted' }, 'Drag to move, turn the wheel to zoom; with the keyboard: arrows, + and −, 0 for the whole graph, / to search.'),
    );
  }

  show(index) {
    const node = this.target.nodes[index];
    const shape = node.shape.length ? `${node.dtype} [${node.shape.join(', ')}]` : node.dtype;
    const parts = [
      make('h2', {}, node.name),
      make('p', {}, make('span', { class: 'badge' }, node.type === 'operator' ? node.operator || 'expression' : node.type), make('span', { class: 'muted' }, shape)),
      ...this.why(node), ...this.layouts(node), ...this.transforms(index), ...this.alternatives(node),
      ...this.refused(node), ...this.kernel(node),
    ];
    this.element.replaceChildren(...parts.filter(Boolean));
    this.element.scrollTop = 0;
  }

  why(node) {
    if (node.type !== 'operator') return [];
    const forced = node.how === 'chosen' && node.alternatives.length < 2;
    const why = forced ? 'Runs in the layout that was asked for.' : WHY[node.how] ?? '';
    const parts = [make('h3', {}, 'Why'), make('p', {}, make('b', {}, node.how), `. ${why}`)];
    if (node.reason) parts.push(make('p', {}, `Reason: ${node.reason}.`));
    if (node.moves_nothing) parts.push(make('p', {}, 'Moves no data: its result lies where its operand does.'));
    return parts;
  }

  layouts(node) {
    const rows = [];
    node.before.operands.forEach((before, place) => rows.push([node.operand_names[place] ?? 'operand', before, node.after.operands[place]]));
    node.before.results.forEach((before, place) => rows.push(['result', before, node.after.results[place]]));
    return [make('h3', {}, 'Layouts'), table(['tensor', 'before', 'after'], rows.slice(0, 24), 'ends'), more(rows.length - 24)];
  }

  transforms(index) {
    const around = this.target.edges.filter((edge) => edge.transform !== null && (edge.source === index || edge.target === index));
    const places = [...new Set(around.map((edge) => edge.transform))];
    if (!places.length) return [];
    const items = places.slice(0, 20).map((place) => {
      const each = this.target.transforms[place];
      return make('li', { class: 'red' }, `${each.source} → ${each.target}: ${each.value}, ${bytesText(each.bytes)}, ${transformTime(this.target, each).join(' ')}`);
    });
    return [make('h3', {}, 'Transforms around it'), make('ul', {}, ...items), more(places.length - 20)];
  }

  alternatives(node) {
    if (node.alternatives.length < 2) return node.type === 'operator' ? [make('h3', {}, 'Alternatives'), make('p', {}, 'None: this is the only way it can run.')] : [];
    const body = node.alternatives.map((way) => {
      const row = make('tr', { class: way.chosen ? 'chosen' : '' },
        make('td', { class: 'mono' }, `${listed(way.operands)} → ${listed(way.results)}`),
        make('td', { class: 'number' }, timeText(way.microseconds)),
        make('td', { class: 'number' }, way.chosen ? 'chosen' : signed(way.more_us)),
        make('td', { class: 'number' }, way.chosen || !way.more_transforms ? '' : `${way.more_transforms > 0 ? '+' : '−'}${Math.abs(way.more_transforms)}`));
      return row;
    });
    const head = make('tr', {}, make('th', {}, 'layouts'), make('th', { class: 'number' }, 'itself'), make('th', { class: 'number' }, 'function'), make('th', { class: 'number', title: 'transforms more' }, 'tr.'));
    return [
      make('h3', {}, 'Alternatives'), make('table', {}, make('thead', {}, head), make('tbody', {}, ...body)),
      make('p', { class: 'muted' }, 'Estimates. “Function” is what it would take more (and transforms, “tr.”) with all other operators as chosen.'),
    ];
  }

  refused(node) {
    if (!node.refused.length) return [];
    const items = node.refused.slice(0, 20).map((each) => make('li', {}, make('span', { class: 'mono' }, each.layout), ` for ${each.value}: ${each.reason}`));
    return [make('h3', {}, 'Blocked'), make('ul', {}, ...items), more(node.refused.length - 20)];
  }

  kernel(node) {
    if (node.type !== 'operator') return [];
    if (node.call === null) return [make('h3', {}, 'Kernel'), make('p', {}, 'None runs: it was folded into others, is computed in place, or is a view.')];
    const call = this.target.calls[node.call], rate = callRate(this.target, call);
    const rows = [['function', call.function], ['loops', sourceText(call)]];
    if (call.estimate_us !== null) rows.push([call.source === 'tuned' ? 'on record' : 'estimated', timeText(call.estimate_us)]);
    if (call.measured_us !== null) rows.push(['measured', `${timeText(call.measured_us)}${call.runs === 1 ? '' : ` in ${counted(call.runs, 'trip')}`}`]);
    if (rate.gflops !== null) rows.push(['rate', `${rate.gflops.toFixed(0)} GFLOP/s${rate.share === null ? '' : `, ${(rate.share * 100).toFixed(0)} % of peak`}`]);
    rows.push(['reads and writes', bytesText(call.bytes)]);
    if (call.knobs) rows.push(['knobs', Object.entries(call.knobs).map(([name, value]) => `${name} ${value}`).join(', ')]);
    const others = call.operators.filter((name) => name !== node.name).map((name) => {
      const place = this.target.nodes.findIndex((each) => each.name === name);
      return make('li', {}, place < 0 ? name : make('button', { class: 'link', type: 'button', click: () => this.choose(place) }, name));
    });
    return [make('h3', {}, 'Kernel'), table(null, rows, 'named'), others.length ? make('p', { class: 'muted' }, 'Computed with') : null, others.length ? make('ul', {}, ...others) : null];
  }
}

function listed(layouts) {
  const parts = [];
  for (const layout of layouts) {
    const last = parts[parts.length - 1];
    if (last && last[0] === layout) last[1] += 1; else parts.push([layout, 1]);
  }
  return parts.map(([layout, count]) => (count > 1 ? `${count}× ${layout}` : layout)).join(', ') || 'nothing';
}

function more(count) { return count > 0 ? make('p', { class: 'muted' }, `and ${count} more`) : null; }

function table(head, rows, kind) {
  const body = rows.map((row) => make('tr', {}, ...row.map((cell) => make('td', {}, String(cell ?? '')))));
  const heading = head ? make('thead', {}, make('tr', {}, ...head.map((cell) => make('th', {}, cell)))) : null;
  return make('table', { class: kind }, heading, make('tbody', {}, ...body));
}

/** GFLOP/s of a call that has a measured time, and the share of the machine's peak that is. */
function callRate(target, call) {
  if (call.measured_us === null || !call.gigaflop || !call.measured_us) return { gflops: null, share: null };
  const gflops = ((call.gigaflop * (call.runs || 1)) / call.measured_us) * 1e6;
  return { gflops, share: target.profile && target.profile.peak_gflops ? gflops / target.profile.peak_gflops : null };
}

const SOURCES = { tuned: 'tuned: measured on record', modelled: 'found by a model', default: 'default: least estimate', fallback: 'fallback: plain loops', loops: 'vector loops, bound by memory' };

function sourceText(call) { return [call.algorithm, SOURCES[call.source] ?? call.source].filter(Boolean).join(', '); }
