// `postrider contacts import`: a CSV file of any size into an audience. The file is read twice: once to see that all of it can be read,
// then to import it, a thousand contacts in each transaction. Importing it again skips what is there.
import { createReadStream, statSync } from 'node:fs'
import { pipeline } from 'node:stream'
import type { Command } from 'commander'
import { parse } from 'csv-parse'
import { codeOf, messageOf, OperatorError } from '../base/errors.ts'
import type { Audience } from '../campaigns/audiences.ts'
import { importContacts, type ImportItem } from '../campaigns/import.ts'
import type { Reader } from '../store/database.ts'
import { db } from '../store/query.ts'
import { withDesk, type Desk, type Invocation } from './open.ts'
import { answer } from './terminal.ts'

const LOT = 1000
const MAX_ERRORS = 100
const MAX_RECORD = 256 * 1024
/** What the API takes as well. */
const MAX_EMAIL = 320
const MAX_NAME = 255
const MAX_KEYS = 100
const MAX_KEY = 200
const MAX_FIELDS = 64 * 1024
const HEAD = 64 * 1024

interface CsvForm {
  encoding: 'utf-8' | 'windows-1252'
  delimiter: string
}

export function contactsCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('contacts')
    .description('the contacts of audiences')
    .command('import <audience> <file>')
    .description('import a CSV file; its columns are email, name, and custom fields by their titles')
    .action((audience: string, file: string) =>
      withDesk(invocation(), async (desk) => {
        const { terminal } = invocation()
        const into = theAudience(desk.store, audience)
        const form = await formOf(file)
        const columns = await checkFile(file, form)
        const bar = terminal.interactive && !terminal.json ? progress(terminal.err, statSync(file).size) : undefined
        const result = await importFile(desk, into, file, form, columns, bar)
        bar?.end()
        answer(terminal, result, ({ created, errors, skipped }) =>
          [
            `${created} contacts were added to ${into.name}, ${skipped} skipped.`,
            ...errors.map(({ detail, email, line }) => `  line ${line}: ${printable(email ?? '')} ${detail}`),
          ].join('\n'),
        )
      }),
    )
}

/** What a file says is not to move a terminal's cursor. */
const printable = (text: string): string => text.replaceAll(/\p{Cc}/gu, '\u{fffd}')

/** An audience by its id, or by its name where that is one's alone. Throws an OperatorError. */
function theAudience(reader: Reader, text: string): Audience {
  const found = reader.all(
    db
      .selectFrom('audiences')
      .selectAll()
      .where('deleted_at', 'is', null)
      .where((eb) => eb.or([eb('id', '=', text), eb('name', '=', text)])),
  )
  if (found.length === 1) return found[0]!
  throw new OperatorError(
    found.length === 0
      ? `There is no audience "${text}"; give its id or its name.`
      : `${found.length} audiences are called "${text}"; give the id of one.`,
  )
}

/** How the file is written: UTF-8 unless it cannot be, and the delimiter that its first line has most of. */
async function formOf(file: string): Promise<CsvForm> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let encoding: CsvForm['encoding'] = 'utf-8'
  let head = ''
  try {
    for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
      if (head.length < HEAD) head += chunk.toString('latin1')
      if (encoding === 'utf-8')
        try {
          decoder.decode(chunk, { stream: true })
        } catch {
          encoding = 'windows-1252'
        }
    }
    // A character that the end of the file cuts is none of UTF-8 either.
    if (encoding === 'utf-8' && !endsWhole(decoder)) encoding = 'windows-1252'
  } catch (thrown) {
    throw new OperatorError(`${file} cannot be read (${codeOf(thrown)}).`)
  }
  // What stands in quotes delimits nothing.
  const [line = ''] = head
    .replace(/^(?:\xef\xbb\xbf)?\s+/, '')
    .replaceAll(/"[^"]*"/g, '')
    .split(/\r\n?|\n/, 1)
  const count = (delimiter: string): number => line.split(delimiter).length
  const delimiter = [',', ';', '\t'].toSorted((one, other) => count(other) - count(one))[0]!
  return { encoding, delimiter }
}

function endsWhole(decoder: TextDecoder): boolean {
  try {
    decoder.decode()
    return true
  } catch {
    return false
  }
}

interface Row {
  record: string[]
  line: number
}

/** The records of the file with the lines where they end. */
async function* rowsOf(
  file: string,
  { delimiter, encoding }: CsvForm,
  read?: (bytes: number) => void,
): AsyncIterable<Row> {
  const decoder = new TextDecoder(encoding)
  const parser = parse({
    delimiter,
    bom: true,
    info: true,
    relax_column_count: true,
    skip_empty_lines: true,
    max_record_size: MAX_RECORD,
  })
  const decoded = async function* (): AsyncIterable<string> {
    for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
      read?.(chunk.length)
      yield decoder.decode(chunk, { stream: true })
    }
    yield decoder.decode()
  }
  pipeline(decoded, parser, () => {})
  for await (const { info, record } of parser as AsyncIterable<{ info: { lines: number }; record: string[] }>)
    yield { record, line: info.lines }
}

interface Columns {
  email: number
  name: number | undefined
  /** Names of the custom fields by column; undefined for email, name and columns without a title. */
  fields: (string | undefined)[]
}

/** Reads the file to its end without importing anything. Throws an OperatorError. */
async function checkFile(file: string, form: CsvForm): Promise<Columns> {
  let columns: Columns | undefined
  try {
    for await (const { record } of rowsOf(file, form)) columns ??= columnsOf(file, record)
  } catch (thrown) {
    if (thrown instanceof OperatorError) throw thrown
    throw new OperatorError(`${file} is no CSV that can be read: ${messageOf(thrown)}. Nothing was imported.`)
  }
  if (!columns) throw new OperatorError(`${file} is empty; its first line names the columns, one of them "email".`)
  return columns
}

function columnsOf(file: string, titles: string[]): Columns {
  const names = titles.map((title) => title.trim())
  const find = (wanted: string): number => names.findIndex((title) => title.toLowerCase() === wanted)
  const email = find('email')
  if (email < 0)
    throw new OperatorError(
      `${file} has no column "email"; its first line is: ${names.slice(0, 8).join(', ').slice(0, 200)}. Nothing was imported.`,
    )
  const name = find('name')
  // Email and name are found whatever their case; merge tags tell case apart.
  const plain = names.map((title) => (/^(?:email|name)$/i.test(title) ? title.toLowerCase() : title))
  const twice = plain.find((title, index) => title !== '' && plain.indexOf(title) !== index)
  if (twice !== undefined)
    throw new OperatorError(`${file} has two columns "${twice.slice(0, 200)}". Nothing was imported.`)
  const fields = names.map((title, index) => (index === email || index === name || title === '' ? undefined : title))
  const custom = fields.filter((title) => title !== undefined)
  if (custom.length > MAX_KEYS || custom.some((title) => title.length > MAX_KEY))
    throw new OperatorError(
      `${file} has more than ${MAX_KEYS} columns beside email and name, or a title of over ${MAX_KEY} characters. Nothing was imported.`,
    )
  return { email, name: name < 0 ? undefined : name, fields }
}

/** One record as an item, or what is wrong with it. */
function itemOf(record: string[], { email, fields, name }: Columns): ImportItem {
  const address = record[email]?.trim() ?? ''
  const wrong = (problem: string): ImportItem => ({ problem, email: address === '' ? null : address.slice(0, 320) })
  if (record.length !== fields.length) return wrong(`has ${record.length} columns, the first line has ${fields.length}`)
  if (address === '') return wrong('has no email address')
  if (Buffer.byteLength(address) > MAX_EMAIL) return wrong('is too long for an email address')
  const called = name === undefined ? '' : record[name]!.trim()
  if (Buffer.byteLength(called) > MAX_NAME || /[\p{Cc}\u2028\u2029]/u.test(called))
    return wrong('has a name that is too long or holds control characters')
  const custom = Object.fromEntries(
    fields.flatMap((title, index) => (title === undefined || record[index] === '' ? [] : [[title, record[index]!]])),
  )
  const some = Object.keys(custom).length > 0
  if (some && Buffer.byteLength(JSON.stringify(custom)) > MAX_FIELDS)
    return wrong('has more than 64 KB of custom fields')
  return { contact: { email: address, name: called === '' ? null : called, custom_fields: some ? custom : null } }
}

interface FileImported {
  created: number
  skipped: number
  errors: { line: number; email: string | null; detail: string }[]
}

async function importFile(
  desk: Desk,
  audience: Audience,
  file: string,
  form: CsvForm,
  columns: Columns,
  bar: Progress | undefined,
): Promise<FileImported> {
  const total: FileImported = { created: 0, skipped: 0, errors: [] }
  let lot: { item: ImportItem; line: number }[] = []
  const flush = async (): Promise<void> => {
    const lines = lot.map(({ line }) => line)
    const { created, errors, skipped } = await importContacts(
      desk,
      audience,
      lot.map(({ item }) => item),
    )
    lot = []
    total.created += created
    total.skipped += skipped
    for (const { index, ...told } of errors)
      if (total.errors.length < MAX_ERRORS) total.errors.push({ line: lines[index]!, ...told })
  }
  let first = true
  for await (const { line, record } of rowsOf(file, form, (bytes) => bar?.add(bytes))) {
    if (!first) lot.push({ item: itemOf(record, columns), line })
    first = false
    if (lot.length >= LOT) await flush()
  }
  if (lot.length > 0) await flush()
  return total
}

interface Progress {
  add(bytes: number): void
  end(): void
}

const WIDTH = 30

/** `[#########---------------------]  31 %`, drawn anew when the number changes. */
function progress(write: (text: string) => void, size: number): Progress {
  let done = 0
  let shown = -1
  return {
    add(bytes) {
      done += bytes
      const percent = size === 0 ? 100 : Math.min(100, Math.floor((done / size) * 100))
      if (percent === shown) return
      shown = percent
      const full = Math.round((percent / 100) * WIDTH)
      write(`\r[${'#'.repeat(full)}${'-'.repeat(WIDTH - full)}] ${String(percent).padStart(3)} %`)
    },
    end: () => write('\n'),
  }
}
