// The executable in a file of a release: a package or a tar of ours, and one true sentence for all else (U1).
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { tar, type Tree } from '../../packaging/image/tar.ts'
import { OperatorError } from '../../src/base/errors.ts'
import { MOST_UNPACKED, programIn } from '../../src/archive/program-in.ts'
import { smallDisk } from '../kit/small-disk.ts'

const folder = mkdtempSync(join(tmpdir(), 'postrider-program-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const HERE = process.arch === 'arm64' ? 'arm64' : 'amd64'
const ELSEWHERE = HERE === 'amd64' ? 'arm64' : 'amd64'
const elf = (machine: string, octets = 100_000): Buffer => {
  const program = Buffer.alloc(octets, machine)
  program.write('\x7fELF\x02\x01\x01', 'latin1')
  program.writeUInt16LE({ amd64: 62, arm64: 183 }[machine] ?? 8, 18)
  return program
}
const PROGRAM = elf(HERE)

const treeOf = (path: string, content: Buffer): Tree =>
  new Map([
    ['usr/share/doc/postrider/copyright', { kind: 'file', content: Buffer.alloc(700, 'x') }],
    [path, { kind: 'file', content, mode: 0o755 }],
  ])
const dataOf = (content: Buffer, path = 'usr/bin/postrider'): Buffer => tar(treeOf(path, content), 0)

const member = (name: string, content: Buffer): Buffer =>
  Buffer.concat([
    Buffer.from(
      `${name.padEnd(16)}${'0'.padEnd(12)}${'0'.padEnd(6)}${'0'.padEnd(6)}${'100644'.padEnd(8)}${String(content.length).padEnd(10)}\`\n`,
    ),
    content,
    Buffer.from(content.length % 2 === 1 ? '\n' : ''),
  ])
const packageOf = (data: Buffer, name = 'data.tar.zst'): Buffer =>
  Buffer.concat([
    Buffer.from('!<arch>\n'),
    member('debian-binary', Buffer.from('2.0\n')),
    member('control.tar.zst', Buffer.from('odd')),
    member(name, data),
  ])
const deb = packageOf(zstdCompressSync(dataOf(PROGRAM)))

let count = 0
/** The program that is found in a file with these octets. */
async function found(name: string, octets: Buffer, place = join(folder, String(count++))): Promise<string> {
  mkdirSync(place, { recursive: true })
  const file = join(place, name)
  writeFileSync(file, octets)
  return programIn(file, place)
}

for (const [name, octets] of [
  ['postrider', PROGRAM],
  ['postrider.deb', deb],
  ['packed-by-gzip.deb', packageOf(gzipSync(dataOf(PROGRAM)), 'data.tar.gz')],
  ['postrider.tar.gz', gzipSync(dataOf(PROGRAM, 'postrider_0.4.0_amd64/usr/bin/postrider'))],
  ['script', Buffer.from('#!/bin/sh\n')],
] as const)
  test(`${name}: its program is found as it is, and may be run (U1)`, async () => {
    const program = await found(name, octets)
    assert.deepEqual(readFileSync(program), name === 'script' ? octets : PROGRAM)
    assert.ok(name === 'script' || name === 'postrider' || (statSync(program).mode & 0o777) === 0o700)
  })

const bomb = (): Buffer => {
  const block = Buffer.from(dataOf(Buffer.alloc(0)).subarray(0, 512))
  // More than all of a release, said and not there.
  block.write((MOST_UNPACKED + 1).toString(8).padStart(11, '0'), 124, 'latin1')
  block.fill(' ', 148, 156)
  const sum = block.reduce((all, octet) => all + octet, 0)
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return block
}

for (const [name, octets, sentence] of [
  ['empty', Buffer.alloc(0), 'is empty; fetch it again.'],
  ['text', Buffer.from('nothing'), 'is not an executable, a Debian package or a tar; name the file of a release.'],
  ['other.elf', elf(ELSEWHERE), `is for ${ELSEWHERE}, and this machine is ${HERE}; fetch the file for ${HERE}.`],
  [
    'other.deb',
    packageOf(zstdCompressSync(dataOf(elf(ELSEWHERE)))),
    `is for ${ELSEWHERE}, and this machine is ${HERE}; fetch the file for ${HERE}.`,
  ],
  ['mips', elf('mips'), `is for another architecture (8), and this machine is ${HERE}; fetch the file for ${HERE}.`],
  [
    'coreutils.deb',
    packageOf(zstdCompressSync(dataOf(PROGRAM, 'usr/bin/ls'))),
    'is not of Postrider: it has no usr/bin/postrider; name the file of a release.',
  ],
  ['cut.deb', deb.subarray(0, deb.length - 40), 'is cut off or damaged; fetch it again.'],
  ['cut-early.deb', deb.subarray(0, 100), 'is cut off or damaged; fetch it again.'],
  ['archive.a', Buffer.from('!<arch>\n'), 'is not a Debian package: it has no data; name the file of a release.'],
  [
    'packed-otherwise.deb',
    packageOf(Buffer.from('x'), 'data.tar.xz'),
    'is packed as "data.tar.xz", and packages of Postrider as "data.tar.zst"; name the file of a release from 0.3.0 on.',
  ],
  ['not-packed.deb', packageOf(Buffer.from('nothing')), /^not-packed\.deb cannot be unpacked: .*; fetch it again\.$/],
  ['cut.tar.gz', gzipSync(dataOf(PROGRAM)).subarray(0, 120), /^cut\.tar\.gz cannot be unpacked: .*; fetch it again\.$/],
  [
    'cut-at-its-end.tar.gz',
    gzipSync(Buffer.concat([dataOf(PROGRAM), Buffer.alloc(1_000_000)])).subarray(0, -20),
    'cannot be unpacked: it is cut off; fetch it again.',
  ],
  [
    'cut-checksum.tar.gz',
    gzipSync(dataOf(PROGRAM)).subarray(0, -4),
    'cannot be unpacked: it is cut off; fetch it again.',
  ],
  [
    'cut-in-its-package.deb',
    packageOf(zstdCompressSync(dataOf(PROGRAM)).subarray(0, -3)),
    'cannot be unpacked: it is cut off; fetch it again.',
  ],
  [
    'cut-inside.deb',
    packageOf(zstdCompressSync(dataOf(PROGRAM).subarray(0, 5000))),
    'cannot be unpacked: it is cut off; fetch it again.',
  ],
  [
    'bomb.deb',
    packageOf(zstdCompressSync(bomb())),
    'cannot be unpacked: it is larger than any release; fetch it again.',
  ],
] as const)
  test(`${name} is refused with a sentence that is true (U1)`, async () => {
    await assert.rejects(found(name, octets), (thrown) => {
      assert.ok(thrown instanceof OperatorError, String(thrown))
      if (typeof sentence === 'string') assert.equal(thrown.message, `${name} ${sentence}`)
      else assert.match(thrown.message, sentence)
      return true
    })
  })

test('a disk that the program does not fit on is said (U1)', async (t) => {
  using disk = smallDisk(join(folder, 'disk'), 'size=1m')
  if (!disk) return t.skip('a small disk cannot be mounted here')
  const large = packageOf(zstdCompressSync(dataOf(elf(HERE, 4_000_000))))
  await assert.rejects(
    found('large.deb', large, disk.dir),
    /large\.deb cannot be unpacked: the disk is full; make room\.$/,
  )
})

test('a package that dpkg-deb made is read (U1)', async (t) => {
  if (spawnSync('dpkg-deb', ['--version']).error) return t.skip('dpkg-deb is not installed')
  const tree = join(folder, 'tree')
  for (const [path, content] of [
    [
      'DEBIAN/control',
      `Package: postrider\nVersion: 1\nArchitecture: ${HERE}\nMaintainer: a <a@here.test>\nDescription: x\n`,
    ],
    ['usr/bin/postrider', PROGRAM],
  ] as const) {
    mkdirSync(join(tree, path, '..'), { recursive: true })
    writeFileSync(join(tree, path), content)
  }
  for (const how of ['zstd', 'gzip']) {
    const made = join(folder, `${how}.deb`)
    const { status, stderr } = spawnSync('dpkg-deb', ['--root-owner-group', `-Z${how}`, '-b', tree, made], {
      encoding: 'utf8',
    })
    assert.equal(status, 0, stderr)
    assert.deepEqual(readFileSync(await found('made.deb', readFileSync(made))), PROGRAM)
  }
})
