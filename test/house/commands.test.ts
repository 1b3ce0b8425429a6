// Every command in the documents for administrators is run by a test: by the guide (test/interop/guide) or by a program
// that the document names. Otherwise the document gives the reason why it is not run.
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { blocksOf, commandsOf, DOCUMENTS, ROOT, WALKED, type Block } from '../interop/guide/documents.ts'

const blocks = DOCUMENTS.flatMap(blocksOf)
const sections: [file: string, section: string][] = Object.entries(WALKED).flatMap(([file, names]) =>
  names.map((name): [string, string] => [file, name]),
)
const placeOf = ({ commands, file, heading }: Block): string => `${file}, "${heading}": ${commands[0]}`

test('each block of commands in the documents is run by a test or marked with the reason why not', () => {
  const faults = blocks.flatMap((block) => {
    if (block.language === '') return [`${placeOf(block)}: the fence names no language`]
    if (block.language !== 'sh') return block.mark === undefined ? [] : [`${placeOf(block)}: a mark without commands`]
    const typed = sections.some(([, section]) => section === block.heading)
    if (block.mark === undefined) return typed ? [] : [`${placeOf(block)}: neither typed nor marked`]
    const by = /^run by (\S+)$/.exec(block.mark)?.[1]
    if (by !== undefined) return existsSync(join(ROOT, by)) ? [] : [`${placeOf(block)}: ${by} is not there`]
    return /^not run: \S+ \S/.test(block.mark) ? [] : [`${placeOf(block)}: "${block.mark}" gives no reason`]
  })
  assert.deepEqual(faults, [])
  assert.ok(blocks.length > 30)
})

test('each section that a test claims to run is in a document and in that test', () => {
  const names = sections.map(([, section]) => section)
  assert.equal(new Set(names).size, names.length)
  for (const [file, section] of sections) {
    const found = blocks.filter((each) => each.heading === section && each.language === 'sh' && each.mark === undefined)
    assert.notEqual(found.length, 0, `no commands in "${section}"`)
    assert.equal(new Set(found.map((each) => each.file)).size, 1, `more than one document has "${section}"`)
    const text = readFileSync(join(ROOT, 'test/interop/guide', file), 'utf8')
    assert.ok(text.includes('demandWalked(import.meta.filename)'), file)
  }
})

test('docs/install.md counts the commands of each installation method correctly', () => {
  // The package is installed by the first command of the README, or in another way.
  const rest = commandsOf('Production in ten minutes').length - 1
  const counts = {
    // The last two commands are another way to do what the second does.
    '[apt](#install-with-apt)': commandsOf('Install with apt').length - 2 + rest,
    '[Debian package](#install-the-debian-package)': commandsOf('Install the Debian package').length + rest,
    '[tar archive](#install-from-the-tar-archive)': commandsOf('Install from the tar archive').length + rest,
    '[container image, with Podman](#podman)':
      commandsOf('Run the container image').length + commandsOf('Podman').length,
  }
  const page = readFileSync(join(ROOT, 'docs/install.md'), 'utf8')
  const rows = page.matchAll(/^\| (\[.*\]\(#.*\)) \| (\d+) \| \d+ \|$/gm)
  assert.deepEqual(Object.fromEntries([...rows].map(([, way, count]) => [way, Number(count)])), counts)
})

test('the reader of documents understands comments, lists, here-documents and continued lines', () => {
  const install = blocksOf('docs/install.md').flatMap(({ commands }) => commands)
  assert.ok(install.some((command) => /^cat >.*\nUnattended.*\nEND$/.test(command)))
  assert.ok(install.some((command) => /^podman run .* localhost\/postrider:[\d.]+$/.test(command)))
  const readme = blocksOf('README.md').filter(({ heading }) => heading === 'Production in ten minutes')
  assert.ok(readme.some(({ commands }) => commands[0]?.startsWith('postrider init')))
  assert.equal(readme.filter(({ mark }) => mark !== undefined).length, 1)
})
