// Releases that Debian's minisign signs and verifies.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { verifySums, type SignedSums } from '../../src/archive/signature.ts'
import { signSums, writeSums } from '../../packaging/sums.ts'
import { SMALL_PROGRAM, smallDeb } from './rig/deb.ts'
import { withPrograms } from './rig/need.ts'

const folder = mkdtempSync(join(tmpdir(), 'postrider-release-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const absent = ['minisign', 'dpkg-deb', 'sha256sum'].filter((program) => spawnSync(program, ['-v']).error)

withPrograms('a release signed with minisign', absent, () => {
  const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

  /** Makes a key and signs a SHA256SUMS of one file by it. */
  function signed(name: string, comment: string): SignedSums {
    const at = (end: string): string => join(folder, `${name}${end}`)
    execFileSync('minisign', ['-G', '-W', '-p', at('.pub'), '-s', at('.sec')], { stdio: 'ignore' })
    writeFileSync(at(''), `${sha256(name)}  ${name}.deb\n`)
    execFileSync('minisign', ['-S', '-s', at('.sec'), '-m', at(''), '-t', comment], { stdio: 'ignore' })
    return {
      sums: readFileSync(at('')),
      signature: readFileSync(at('.minisig')),
      publicKey: readFileSync(at('.pub'), 'utf8'),
      file: { name: `${name}.deb`, sha256: sha256(name) },
    }
  }

  test('verifies, but not with a key, checksums or a comment of another release', () => {
    const one = signed('one', 'postrider 1.2.3')
    const other = signed('other', 'postrider 9.9.9')
    assert.deepEqual(verifySums(one), { version: '1.2.3', name: 'one.deb' })
    assert.throws(() => verifySums({ ...one, publicKey: other.publicKey }), /signed with the key/)
    assert.throws(() => verifySums({ ...one, sums: other.sums }), /SHA256SUMS does not match its signature/)
    const forged = Buffer.from(one.signature.toString().replace('1.2.3', '9.9.9'))
    assert.throws(() => verifySums({ ...one, signature: forged }), /comment in SHA256SUMS.minisig/)
    assert.throws(() => verifySums(signed('odd', 'something else')), /not that of a release/)
  })
})

withPrograms('the files of a release', absent, () => {
  const VERSION = '1.2.3'
  const files = ['amd64', 'arm64'].flatMap((arch) => [
    `postrider_${VERSION}_${arch}.deb`,
    `postrider_${VERSION}_${arch}.tar.gz`,
  ])

  /** A release in a folder of its own: both packages, a bill of materials, and what is none of it. */
  function release(name: string): string {
    const place = join(folder, name)
    mkdirSync(place)
    for (const arch of ['amd64', 'arm64']) smallDeb(place, VERSION, arch)
    smallDeb(place, '1.2.2', 'amd64')
    writeFileSync(join(place, `postrider_${VERSION}_amd64.cdx.json`), '{}')
    writeFileSync(join(place, 'postrider'), 'an executable')
    return place
  }
  function key(name: string): { secret: string; publicKey: string } {
    const [publicKey, secret] = [join(folder, `${name}.pub`), join(folder, `${name}.sec`)]
    execFileSync('minisign', ['-G', '-W', '-p', publicKey, '-s', secret], { stdio: 'ignore' })
    return { secret, publicKey: readFileSync(publicKey, 'utf8') }
  }
  const bytesOf = (place: string): string[][] =>
    readdirSync(place)
      .toSorted()
      .map((name) => [name, readFileSync(join(place, name)).toString('latin1')])

  test('are listed in SHA256SUMS with the executables in the tar archives, and are reproducible', () => {
    const place = release('once')
    assert.deepEqual(writeSums(place, VERSION), [...files, `postrider_${VERSION}_amd64.cdx.json`].toSorted())
    const other = release('twice')
    writeSums(other, VERSION)
    assert.deepEqual(bytesOf(place), bytesOf(other))
    for (const arch of ['amd64', 'arm64'])
      execFileSync('tar', ['-xzf', `postrider_${VERSION}_${arch}.tar.gz`], { cwd: place, stdio: 'ignore' })
    execFileSync('sha256sum', ['--strict', '-c', 'SHA256SUMS'], { cwd: place, stdio: 'ignore' })
    assert.equal(readFileSync(join(place, `postrider_${VERSION}_arm64`, SMALL_PROGRAM), 'utf8'), `${VERSION} arm64`)
  })

  test('are signed, and minisign and Postrider verify them and an unpacked tar archive', () => {
    const place = release('signed')
    const { publicKey, secret } = key('signing')
    writeSums(place, VERSION)
    signSums(place, VERSION, secret, publicKey)
    const minisign = spawnSync(
      'minisign',
      ['-V', '-p', `${secret.slice(0, -4)}.pub`, '-m', join(place, 'SHA256SUMS')],
      {
        encoding: 'utf8',
      },
    )
    assert.match(minisign.stdout, /Signature and comment signature verified\nTrusted comment: postrider 1\.2\.3/)
    execFileSync('tar', ['-xzf', files[1]!], { cwd: place, stdio: 'ignore' })
    copyFileSync(join(place, `postrider_${VERSION}_amd64`, SMALL_PROGRAM), join(place, 'program'))
    const [sums, signature] = ['SHA256SUMS', 'SHA256SUMS.minisig'].map((name) => readFileSync(join(place, name)))
    for (const [name, listed] of [
      ['program', `postrider_${VERSION}_amd64/${SMALL_PROGRAM}`],
      [files[0]!, files[0]!],
    ] as const) {
      const file = {
        name,
        sha256: createHash('sha256')
          .update(readFileSync(join(place, name)))
          .digest('hex'),
      }
      assert.deepEqual(verifySums({ sums: sums!, signature: signature!, publicKey, file }), {
        version: VERSION,
        name: listed,
      })
    }
  })

  test('are not signed with a key that the executable does not contain', () => {
    const place = release('foreign')
    writeSums(place, VERSION)
    assert.throws(
      () => signSums(place, VERSION, key('own').secret, key('foreign').publicKey),
      /the release key in this executable/,
    )
  })
})
