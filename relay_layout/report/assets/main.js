// Puts the page together and keeps search, selection and the two drawings in step.

const report = JSON.parse(byId('report').textContent);
const drawing = JSON.parse(byId('drawing').textContent);
const page = { target: null, graphs: [], selected: null, matches: [], at: -1, tab: 'Kernels' };

function choose(index, { move = true } = {}) {
  page.selected = index;
  page.graphs.forEach((graph) => { graph.selected = index; });
  if (index === null) page.details.empty();
  else {
    page.details.show(index);
    if (move) page.graphs[0].show(index);
    history.replaceState(null, '', `#node=${encodeURIComponent(page.target.nodes[index].name)}`);
  }
  redraw();
}

let waiting = false;
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; page.graphs.forEach((graph) => graph.draw()); });
}

function openTarget(place) {
  const target = report.targets[place];
  page.graphs.forEach((graph) => graph.abort.abort());
  page.target = target;
  page.colours = new Colours(target.nodes);
  page.details = new Details(byId('details'), target, choose);
  const places = new Places(target, drawing.targets[place], drawing), view = new View();
  page.graphs = ['before', 'after'].map((side) => new Graph(byId(side), side, target, places, view, page.colours,
    (index) => choose(index, { move: false }), redraw));
  const threads = target.threads ? `, ${counted(target.threads, 'thread')}` : '';
  byId('about').textContent = `${target.name} (${target.target.mcpu ?? target.target.kind}${threads}) · relay-layout ${report.relay_layout}, TVM ${report.tvm}`;
  byId('legend').replaceChildren(...page.colours.legend(), transformKey());
  fillTiles(target);
  page.graphs[0].fit();
  if (view.scale < 0.5) { view.scale = 0.9; view.y = 14; view.x = byId('before').clientWidth / 2 - places.nodes[places.order[0]][0] * view.scale; }
  showTab(page.tab);
  search(byId('search').value);
  const wanted = new URLSearchParams(location.hash.slice(1)).get('node');
  const found = wanted === null ? -1 : target.nodes.findIndex((node) => node.name === wanted);
  choose(found < 0 ? null : found);
}

function transformKey() {
  const swatch = make('span', { class: 'swatch' });
  swatch.style.background = page.colours.red;
  swatch.style.borderColor = page.colours.red;
  return make('span', {}, swatch, 'transform left to run');
}

function fillTiles(target) {
  const { transforms, calls, memory, profile, solver } = target;
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const sources = new Map();
  calls.filter((call) => call.operator).forEach((call) => sources.set(call.source, (sources.get(call.source) || 0) + 1));
  const moved = sum(transforms.map((each) => each.bytes));
  const tiles = [
    [String(transforms.length), transforms.length ? `transforms left, ${bytesText(moved)}, ${timeText(sum(transforms.map((each) => each.microseconds)))}` : 'transforms left', transforms.length > 0],
    [timeText(solver.objective_us), `estimated, choice ${solver.status} in ${solver.seconds.toFixed(2)} s`],
    [[...sources].map(([source, count]) => `${count} ${source}`).join(', ') || 'none', `kernels of convolutions and poolings, ${calls.length} calls in all`],
    [bytesText(memory.storage_bytes), `intermediate results, beside ${bytesText(memory.weight_bytes)} of weights`],
    profile ? [timeText(profile.run_us), `median of ${profile.repeat} runs, ${counted(profile.threads, 'thread')}, ${profile.cpu}`] : ['not profiled', 'relay-layout run ARTIFACT --profile --report THIS'],
  ];
  byId('tiles').replaceChildren(...tiles.map(([value, label, bad]) => make('div', { class: `tile${bad ? ' bad' : ''}` }, make('b', {}, value), make('span', {}, label))));
}

const TABS = {
  Kernels: () => kernelTable(page.target, choose).element(),
  Transforms: () => (page.target.transforms.length ? transformTable(page.target, choose).element() : make('p', {}, 'No transform is left to run.')),
  Memory: () => memoryView(page.target, page.colours),
  Operators: () => operatorTable(page.target, choose).element(),
};

function showTab(name) {
  page.tab = name;
  byId('tabs').replaceChildren(...Object.keys(TABS).map((each) => make('button', { type: 'button', role: 'tab', ariaSelected: String(each === name), click: () => showTab(each) }, each)));
  byId('tabs').querySelectorAll('button').forEach((button) => button.setAttribute('aria-selected', String(button.textContent === name)));
  byId('table').replaceChildren(TABS[name]());
}

function search(text) {
  const wanted = text.trim().toLowerCase(), { target } = page;
  page.matches = !wanted ? [] : target.nodes.flatMap((node, index) => (
    [node.name, node.operator, layoutText(node, 'before'), layoutText(node, 'after')].some((each) => each.toLowerCase().includes(wanted)) ? [index] : []));
  page.at = -1;
  byId('hits').textContent = wanted ? counted(page.matches.length, 'match').replace('matchs', 'matches') : '';
  const chosen = new Set(page.matches);
  page.graphs.forEach((graph) => { graph.matches = chosen; });
  byId('results').replaceChildren(...page.matches.slice(0, 50).map((index, place) => make('li', {}, make('button', { type: 'button', click: () => { goTo(place); closeResults(); } },
    target.nodes[index].name, ' ', make('small', {}, `${shortOperator(target.nodes[index].operator) || target.nodes[index].type}, ${layoutText(target.nodes[index], 'after')}`)))));
  byId('results').hidden = !page.matches.length || document.activeElement !== byId('search');
  redraw();
}

function goTo(place) {
  if (!page.matches.length) return;
  page.at = (place + page.matches.length) % page.matches.length;
  choose(page.matches[page.at]);
}

function closeResults() { byId('results').hidden = true; }

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  if (!page.target) return;
  page.colours.refresh();
  byId('legend').replaceChildren(...page.colours.legend(), transformKey());
  if (page.tab === 'Memory') showTab('Memory');
  redraw();
}

function listen() {
  const field = byId('search'), dark = matchMedia('(prefers-color-scheme: dark)');
  setTheme(dark.matches ? 'dark' : 'light');
  dark.addEventListener('change', () => setTheme(dark.matches ? 'dark' : 'light'));
  byId('theme').addEventListener('click', () => setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'));
  field.addEventListener('input', () => search(field.value));
  field.addEventListener('focus', () => { byId('results').hidden = !page.matches.length; });
  document.addEventListener('pointerdown', (event) => { if (!event.target.closest('.search')) closeResults(); });
  document.querySelector('.search').addEventListener('keydown', (event) => {
    const buttons = [...byId('results').querySelectorAll('button')], place = buttons.indexOf(document.activeElement);
    if (event.key === 'Enter' && event.target === field) goTo(page.at + (event.shiftKey ? -1 : 1));
    else if (event.key === 'Escape') { closeResults(); field.focus(); closeResults(); }
    else if (event.key === 'ArrowDown' && buttons.length) { byId('results').hidden = false; buttons[Math.min(place + 1, buttons.length - 1)].focus(); }
    else if (event.key === 'ArrowUp' && place >= 0) (buttons[place - 1] ?? field).focus();
    else return;
    event.preventDefault();
  });
  document.addEventListener('keydown', (event) => {
    if (event.key === '/' && !event.target.closest('input')) { event.preventDefault(); field.focus(); field.select(); }
  });
  byId('in').addEventListener('click', () => zoomBy(1.4));
  byId('out').addEventListener('click', () => zoomBy(1 / 1.4));
  byId('fit').addEventListener('click', () => { page.graphs[0].fit(); redraw(); });
  new ResizeObserver(redraw).observe(byId('before'));
}

function zoomBy(factor) {
  const canvas = byId('before');
  page.graphs[0].view.zoom(factor, canvas.clientWidth / 2, canvas.clientHeight / 2);
  redraw();
}

byId('model').textContent = report.model;
byId('footer').textContent = 'Before is the model after import and simplification (batch norms folded). Times without “measured” are estimates of the cost model. ' +
  'A measured time belongs to a whole kernel and is shown at the first operator that it computes.';
const select = byId('target');
report.targets.forEach((target, place) => select.append(make('option', { value: String(place) }, target.name)));
byId('targets').hidden = report.targets.length < 2;
select.addEventListener('change', () => openTarget(Number(select.value)));
listen();
openTarget(0);
// For whoever waits for the page: the milliseconds it took.
document.documentElement.dataset.ready = String(Math.round(performance.now()));
