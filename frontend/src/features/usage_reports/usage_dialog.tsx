/** What was used on this server, by day, target, chat and key, and what is left of the budgets. */
// Needs what those panels need: otherwise the build cuts the first load into more pieces, which compress worse.
import "../../frame/panels.tsx";
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { BudgetShown, UsageListed, UsageSummary } from "../../bodies.ts";
import { count, grouped, moment, money, percent, plural } from "../../format.ts";
import { Choices } from "../../frame/choices.tsx";
import { show } from "../../frame/commands.ts";
import { Dialog } from "../../frame/dialog.tsx";
import { closeDialog } from "../../frame/ui.ts";
import { Icon } from "../../icons.tsx";
import { harmless } from "../../markdown/safe.ts";
import { useRefreshed } from "../../server_panels/refreshed.ts";
import { nowMs } from "../../state.ts";
import { Problem } from "../../talk/problem.tsx";
import { readUsage } from "./requests.ts";
import { UsageChart } from "./usage_chart.tsx";
import {
  type By,
  barsOf,
  costWords,
  csvOf,
  type Days,
  dayOf,
  daysOf,
  fullness,
  leftOf,
  type Measure,
  nameOf,
  type Period,
  sorted,
  troubleWith,
} from "./usage_figures.ts";

const EVERY_MS = 30_000;
const ROWS_MAX = 100;
const HEADS: Readonly<Record<By, string>> = { day: "Day", target: "Target", session: "Chat", key: "Key" };

const close = (): void => closeDialog("usage");

export function UsageDialog(): JSX.Element {
  const [period, setPeriod] = useState<Period>("week");
  const [by, setBy] = useState<By>("day");
  const [custom, setCustom] = useState<Days>(() => daysOf("month", { from: "", to: "" }, Date.now()));
  return (
    <Dialog title="Usage" onClose={close}>
      <div class="wide-panel">
        <Choices<Period>
          legend="Period"
          value={period}
          options={[
            { value: "today", words: "Today" },
            { value: "week", words: "7 days" },
            { value: "month", words: "30 days" },
            { value: "custom", words: "Custom" },
          ]}
          onChange={setPeriod}
        />
        {period === "custom" ? <CustomDays days={custom} onChange={setCustom} /> : null}
        <Choices<By>
          legend="By"
          value={by}
          options={[
            { value: "day", words: "Day" },
            { value: "target", words: "Target" },
            { value: "session", words: "Chat" },
            { value: "key", words: "Key" },
          ]}
          onChange={setBy}
        />
        <Report by={by} days={daysOf(period, custom, nowMs.value)} />
      </div>
    </Dialog>
  );
}

function CustomDays({
  days,
  onChange,
}: {
  readonly days: Days;
  readonly onChange: (days: Days) => void;
}): JSX.Element {
  const field = (name: keyof Days, words: string): JSX.Element => (
    <label>
      {words}
      <input
        type="date"
        class="field"
        max={dayOf(nowMs.value)}
        value={days[name]}
        onChange={(event) => onChange({ ...days, [name]: event.currentTarget.value })}
      />
    </label>
  );
  return (
    <div class="usage-dates">
      {field("from", "First day")}
      {field("to", "Last day")}
    </div>
  );
}

function Report({ by, days }: { readonly by: By; readonly days: Days }): JSX.Element {
  const wrong = troubleWith(days);
  const what = `${by} ${days.from} ${days.to}`;
  const { value, atMs, trouble } = useRefreshed(
    what,
    async () =>
      wrong
        ? { ok: false, trouble: { message: wrong, code: "", status: 0, param: null } }
        : await readUsage(by, days.from, days.to),
    EVERY_MS,
  );
  const stale = value !== null && trouble && !wrong ? ` Last updated ${moment(atMs)}.` : "";
  return (
    <>
      <Problem words={trouble && trouble + stale} />
      {value === null ? (
        trouble ? null : (
          <p class="muted">
            <span class="spinner" /> Loading
          </p>
        )
      ) : (
        <Figures report={value} />
      )}
    </>
  );
}

function Figures({ report }: { readonly report: UsageSummary }): JSX.Element {
  const { totals, budgets } = report;
  const { by } = report;
  const hasCost = (totals.cost_usd ?? 0) > 0;
  const [wanted, setWanted] = useState<Measure>("cost");
  const measure = hasCost ? wanted : "tokens";
  const bars = useMemo(() => barsOf(report, measure), [report, measure]);
  return (
    <>
      <section class="setting" aria-label="Sum">
        <p class="usage-sum" role="status">
          <strong>{totals.cost_usd == null ? "Cost unknown" : money(totals.cost_usd)}</strong>
          <span class="muted">
            {plural(totals.runs, "run")} · {plural(totals.relayed_calls, "relayed call")} ·{" "}
            {count(totals.input_tokens)} tokens in, {count(totals.output_tokens)} out
          </span>
        </p>
        {totals.unpriced_calls > 0 ? (
          <p class="fine warned">
            {plural(totals.unpriced_calls, "call")} went to models whose price isn't known, for example a
            local model. Their cost isn't included.
          </p>
        ) : null}
        {hasCost ? (
          <Choices<Measure>
            legend="Show"
            value={measure}
            options={[
              { value: "cost", words: "Cost" },
              { value: "tokens", words: "Tokens" },
            ]}
            onChange={setWanted}
          />
        ) : null}
        <UsageChart bars={bars} measure={measure} way={by === "day" ? "days" : "rows"} />
      </section>
      <section class="setting" aria-label="Budgets">
        <h3>Budgets</h3>
        {budgets.length === 0 ? (
          <p class="fine muted">No API key has a budget. Set one under [[keys]] in the configuration.</p>
        ) : null}
        <ul class="budgets">
          {budgets.map((budget) => (
            <Budget key={`${budget.key} ${budget.period}`} budget={budget} />
          ))}
        </ul>
      </section>
      <section class="setting" aria-label="Details">
        {report.rows.length === 0 ? (
          <p class="muted">No usage in this period.</p>
        ) : (
          <Table report={report} by={by} rows={sorted(report, measure)} />
        )}
      </section>
    </>
  );
}

function Budget({ budget }: { readonly budget: BudgetShown }): JSX.Element {
  const full = fullness(budget);
  const name = harmless(nameOf(budget));
  return (
    <li>
      <span class="usage-name">
        {name} <span class="muted">per {budget.period}</span>
      </span>
      <meter
        min={0}
        max={1}
        low={0.8}
        high={0.999}
        optimum={0}
        value={full}
        aria-label={`${name}: ${percent(full, 1)} used`}
      />
      <span class={full >= 1 ? "problem" : ""}>{leftOf(budget)}</span>
      <span class="fine muted">resets {moment(1000 * budget.resets_at)}</span>
    </li>
  );
}

interface TableProps {
  readonly report: UsageSummary;
  readonly by: By;
  readonly rows: readonly UsageListed[];
}

function Table({ report, by, rows }: TableProps): JSX.Element {
  const [all, setAll] = useState(false);
  const shown = all ? rows : rows.slice(0, ROWS_MAX);
  const listed = rows.reduce((sum, row) => sum + row.input_tokens, 0);
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a part that scrolls must be reachable by keyboard */}
      <div class="usage-table" role="region" aria-label="Usage table" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">{HEADS[by]}</th>
              <th scope="col">Cost</th>
              <th scope="col">Input</th>
              <th scope="col">Cached</th>
              <th scope="col">Output</th>
              <th scope="col">Runs</th>
              <th scope="col">Relayed</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => (
              <Row key={row.key} row={row} by={by} />
            ))}
          </tbody>
        </table>
      </div>
      <div class="ways">
        {shown.length < rows.length ? (
          <button type="button" class="button small" onClick={() => setAll(true)}>
            Show all {grouped(rows.length)}
          </button>
        ) : null}
        <button type="button" class="button small" onClick={() => save(report)}>
          <Icon name="download" />
          Download CSV
        </button>
        <span class="fine muted">
          {listed < report.totals.input_tokens ? "Only the largest are shown. " : ""}Days are in UTC. Input
          includes cached tokens.
        </span>
      </div>
    </>
  );
}

function Row({ row, by }: { readonly row: UsageListed; readonly by: By }): JSX.Element {
  const name = harmless(nameOf(row));
  return (
    <tr>
      <th scope="row">
        {by === "session" && row.runs > 0 ? (
          <button
            type="button"
            class="usage-chat"
            onClick={() => {
              close();
              show(row.key);
            }}
          >
            {name}
          </button>
        ) : (
          name
        )}
      </th>
      <td>{costWords(row)}</td>
      <td>{grouped(row.input_tokens)}</td>
      <td>{grouped(row.cached_tokens)}</td>
      <td>{grouped(row.output_tokens)}</td>
      <td>{grouped(row.runs)}</td>
      <td>{grouped(row.relayed_calls)}</td>
    </tr>
  );
}

/** Saves what is shown as a file; nothing more is asked for. */
function save(report: UsageSummary): void {
  const url = URL.createObjectURL(new Blob([csvOf(report)], { type: "text/csv" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `holdfast-usage-by-${report.by}-${report.from}-to-${report.to}.csv`;
  link.click();
  // the browser has taken the address by then
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
