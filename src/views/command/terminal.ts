// The output of commands: text, or with --json only one document on stdout. Much of the text is untrusted (subjects,
// replies, names, cells of a file). Its characters must not move the cursor, change the direction of text, or end the
// line inside a table cell or a quoted value.
import { once } from 'node:events'
import { fstatSync, statSync } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { forTerminal, forTerminalJson, forTerminalLines } from '../../base/clean-text.ts'
import { codeOf, OperatorError } from '../../base/errors.ts'
import { forInstance } from '../../base/named-instance.ts'

export interface Terminal {
  json: boolean
  out: (text: string) => void
  err: (text: string) => void
  /**
   * Writes unchanged text for another program. On a terminal, control characters are replaced. Resolves when the stream
   * accepts more.
   */
  raw: (text: string) => Promise<void>
  /** Resolves when the output is written. Throws an OperatorError if it was discarded. */
  written: () => Promise<void>
  /** Redraws the line on stderr. Only for text that this program itself made. */
  draw: (text: string) => void
  /** True if stdout is a terminal, so that colours, prompts and progress bars are useful. */
  interactive: boolean
}

/** Whether a command has begun its output on stdout. */
export interface Spoken {
  begun: boolean
}

/** The terminal of this process. */
export function standardTerminal(json: boolean, spoken: Spoken = { begun: false }): Terminal {
  const { stderr, stdout } = process
  const fit = json ? forTerminalJson : forTerminalLines
  return {
    json,
    interactive: stdout.isTTY === true,
    out: (text) => {
      spoken.begun = true
      stdout.write(fit(text))
    },
    err: (text) => void stderr.write(forTerminalLines(text)),
    raw: async (text) => {
      spoken.begun = true
      const fine = stdout.write(stdout.isTTY ? forTerminalLines(text.replaceAll('\r\n', '\n')) : text)
      if (!fine) await once(stdout, 'drain')
    },
    written: () =>
      new Promise((done, fail) => {
        stdout.once('error', fail)
        stdout.write('', (fault) => {
          stdout.off('error', fail)
          if (fault) fail(new OperatorError(`The output cannot be written (${codeOf(fault)}); nothing was changed.`))
          // Node replaces a closed output with /dev/null.
          else if (fstatSync(1).rdev === statSync('/dev/null').rdev)
            fail(
              new OperatorError(
                'The output would be discarded, so nothing was changed; run the command on a terminal or redirect it to a file.',
              ),
            )
          else done()
        })
      }),
    draw: (text) => void stderr.write(text),
  }
}

/** For output that is a file: throws an OperatorError if standard output is a terminal. */
export function demandRedirected(): void {
  if (process.stdout.isTTY)
    throw new OperatorError('Standard output is a terminal; redirect it to a file or pipe it into a command.')
}

/** Copies a stream to standard output. */
export const writeOut = (bytes: Readable): Promise<void> => pipeline(bytes, process.stdout, { end: false })

/** Whether a descriptor (1: stdout, 2: stderr) leads to systemd's journal (systemd.exec(5), $JOURNAL_STREAM). */
export function isJournal(descriptor: 1 | 2): boolean {
  const stream = process.env['JOURNAL_STREAM']
  if (!stream) return false
  try {
    const { dev, ino } = fstatSync(descriptor)
    return stream === `${dev}:${ino}`
  } catch {
    return false
  }
}

/** Prints an error on stderr, marked as an error for the journal (sd-daemon(3)). */
export function complain({ err }: Terminal, text: string): void {
  const lines = `postrider: ${text}\n`
  err(isJournal(2) ? lines.replaceAll(/^(?=.)/gm, '<3>') : lines)
}

/** Prints a result: the document with --json, else the text that `human` returns for it. */
export function answer<T>(terminal: Terminal, document: T, human: (document: T) => string): void {
  const text = terminal.json ? JSON.stringify(document) : forInstance(human(document))
  terminal.out(text.endsWith('\n') ? text : `${text}\n`)
}

/** With --json the error is the document: `{"error": {"message", "code"}}`. */
export function answerError({ json, out }: Terminal, message: string, code: string): void {
  if (json) out(`${JSON.stringify({ error: { message, code } })}\n`)
}

export function table(heads: readonly string[], rows: readonly (readonly (string | number | null)[])[]): string {
  const cells = [heads, ...rows.map((row) => row.map((cell) => (cell === null ? '-' : forTerminal(String(cell)))))]
  const widths = heads.map((_, column) => Math.max(...cells.map((row) => row[column]!.length)))
  return cells
    .map((row) =>
      row
        .map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(widths[column]!)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

type TableCell = string | number | null

/**
 * Prints rows as a table, or as a document with --json. `columns`: the members of a row, or functions, by their heads.
 * `none`: the sentence for an empty table. Without it, the heads are printed.
 */
export function answerRows<Row extends object>(
  terminal: Terminal,
  rows: readonly Row[],
  columns: Readonly<Record<string, (keyof Row & string) | ((row: Row) => TableCell)>>,
  none?: string,
): void {
  const cell = (row: Row, of: (keyof Row & string) | ((row: Row) => TableCell)): TableCell =>
    typeof of === 'function' ? of(row) : (row[of] as TableCell)
  const cells = (row: Row): TableCell[] => Object.values(columns).map((of) => cell(row, of))
  answer(terminal, rows, (all) =>
    all.length === 0 && none !== undefined ? none : table(Object.keys(columns), all.map(cells)),
  )
}

const WIDTH = 30

export interface Progress {
  add(bytes: number): void
  end(): void
}

/** `[#########---------------------]  31 %`, redrawn when the number changes. No output without a terminal. */
export function progress({ draw, interactive, json }: Terminal, size: number): Progress {
  if (!interactive || json) return { add: () => {}, end: () => {} }
  let done = 0
  let shown = -1
  return {
    add(bytes) {
      done += bytes
      const percent = size === 0 ? 100 : Math.min(100, Math.floor((done / size) * 100))
      if (percent === shown) return
      shown = percent
      const full = Math.round((percent / 100) * WIDTH)
      draw(`\r[${'#'.repeat(full)}${'-'.repeat(WIDTH - full)}] ${String(percent).padStart(3)} %`)
    },
    end: () => draw('\n'),
  }
}

/** Writes the output of a line editor: the question, and the typed keys. */
export const drawn = (chunk: string | Uint8Array): void => void process.stderr.write(chunk)
