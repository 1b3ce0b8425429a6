// A type name has one meaning in src: an interface, type or class is not declared differently in two files, and does
// not have the name of a global (Response, Event, …).
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const SRC = join(import.meta.dirname, '../../src')

/** Globals of browsers: types have these names in every editor, whether or not this process has them. */
const BROWSER =
  'Attr CharacterData Comment Document Element History Image Location Lock Node Notification Option Plugin Range ' +
  'Screen Selection Storage Text Window'
const GLOBALS = new Set([...Object.getOwnPropertyNames(globalThis), ...BROWSER.split(' ')])

interface Declaration {
  name: string
  text: string
}

/**
 * The types that a text declares, with their text, which ends before the next line with the same indentation or less.
 */
function declarationsIn(text: string): Declaration[] {
  const beginning =
    /^( *)(?:export )?(?:declare )?(?:abstract )?((?:interface|type|class) (\w+)(?=<| =| \{| extends | implements ).*)$/gm
  return [...text.matchAll(beginning)].map(({ 0: line, 1: indent, 2: first, 3: name, index }) => {
    const rest = text.slice(index + line.length)
    const end = rest.search(new RegExp(`\\n(?: {0,${indent!.length}}(?=[^\\s}\\])|])|$)`))
    return { name: name!, text: `${first}${end < 0 ? rest : rest.slice(0, end)}`.replace(/\s+/g, ' ').trim() }
  })
}

/** The names that files declare with different texts, each with its files. */
function ambiguous(files: readonly (readonly [file: string, text: string])[]): Map<string, string[]> {
  const found = new Map<string, Map<string, string>>()
  for (const [file, text] of files)
    for (const { name, text: declared } of declarationsIn(text))
      found.set(name, (found.get(name) ?? new Map<string, string>()).set(file, declared))
  return new Map(
    [...found]
      .filter(([, texts]) => new Set(texts.values()).size > 1)
      .map(([name, texts]) => [name, [...texts.keys()].sort()]),
  )
}

const sources = globSync('**/*.ts', { cwd: SRC }).map((file) => [file, readFileSync(join(SRC, file), 'utf8')] as const)

test('no type name has two meanings', () => {
  assert.deepEqual(
    [...ambiguous(sources)].map(([name, files]) => `${name}: ${files.join(', ')}`),
    [],
  )
})

test('no type has the name of a global', () => {
  const faults = sources.flatMap(([file, text]) =>
    declarationsIn(text)
      .filter(({ name }) => GLOBALS.has(name))
      .map(({ name }) => `${file}: ${name}`),
  )
  assert.deepEqual(faults, [])
  for (const name of ['Event', 'Node', 'Performance', 'Response']) assert.ok(GLOBALS.has(name), name)
})

test('the check reads every form of declaration to its end', () => {
  const one = 'interface Row {\n  a: string\n}\n'
  const places: [string, number][] = [
    ['export interface Row {\n  a: string\n}\nconst b = 1\n', 0],
    ['interface Row {\n  a: number\n}\n', 1],
    ['export type Row =\n  | string\n  | number\n\nfunction a() {}\n', 1],
    ['function a() {\n  interface Row {\n    a: number\n  }\n}\n', 1],
    ['export class Row<T> extends Old {\n  #a = 1\n\n  b() {}\n}\n', 1],
    ["import {\n  a,\n  type Row,\n} from './one.ts'\n", 0],
    ['interface Row {\n  a: string\n}\ninterface Other {\n  a: number\n}\n', 0],
  ]
  for (const [other, count] of places)
    assert.equal(
      ambiguous([
        ['one.ts', one],
        ['other.ts', other],
      ]).size,
      count,
      other,
    )
})
