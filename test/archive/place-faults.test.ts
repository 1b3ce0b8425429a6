// What a place that fails is told with: the setting that is wrong, or what fixes the disk.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileFault } from '../../src/archive/places/place-fault.ts'
import { openPlace } from '../../src/archive/places/place.ts'
import { systemClock } from '../../src/base/clock.ts'

const folder = mkdtempSync(join(tmpdir(), 'postrider-place-faults-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const deps = { clock: systemClock }
const key_file = join(folder, 's3.key')
writeFileSync(key_file, 'AKID\nhush\n')

const error = (code: string, more = ''): string => `<Error><Code>${code}</Code><Message>no</Message>${more}</Error>`

for (const [what, status, headers, body, said] of [
  [
    'a redirect with the region in a header',
    301,
    { 'x-amz-bucket-region': 'eu-west-3' },
    '',
    /set "backup\.s3\.region" to "eu-west-3"\.$/,
  ],
  [
    'a redirect with the endpoint',
    301,
    {},
    error('PermanentRedirect', '<Endpoint>bucket.s3.eu-west-3.example.test</Endpoint><Bucket>bucket</Bucket>'),
    /says PermanentRedirect; set "backup\.s3\.endpoint" to "https:\/\/s3\.eu-west-3\.example\.test"\.$/,
  ],
  [
    'another place for a while',
    307,
    { location: 'https://other.example.test/bucket?list-type=2' },
    error('TemporaryRedirect'),
    /set "backup\.s3\.endpoint" to "https:\/\/other\.example\.test"\.$/,
  ],
  [
    'a signature for another region',
    400,
    {},
    error('AuthorizationHeaderMalformed', '<Region>garage</Region>'),
    /says AuthorizationHeaderMalformed; set "backup\.s3\.region" to "garage"\.$/,
  ],
  ['a redirect that says nothing', 302, {}, '', /the server says 302; make it, or correct its name in "backup\.to"\.$/],
  [
    'a region that is none',
    301,
    { 'x-amz-bucket-region': 'a\u0022; rm' },
    error('PermanentRedirect', '<Endpoint>a b</Endpoint>'),
    /says PermanentRedirect; make it, or correct its name in "backup\.to"\.$/,
  ],
] as const)
  test(`a bucket that answers with ${what}: the setting is named (B13)`, async () => {
    const server = createServer((_, response) => response.writeHead(status, headers).end(body))
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const place = openPlace('s3://bucket/mx', { s3: { endpoint, key_file } }, deps)
    try {
      await assert.rejects(async () => {
        for await (const _ of place.list());
      }, said)
    } finally {
      await place.close()
      server.close()
    }
  })

for (const [code, said] of [
  ['EACCES', /: user .*\d+.* may not do that there; give that user the right to/],
  ['EROFS', /read-only for this process; .*"ReadWritePaths="/],
  ['ENOENT', /there is no such directory; make it, or correct its name in "backup\.to"/],
  ['ENOTDIR', /it is not a directory; make it, or correct its name/],
  ['ENOSPC', /the disk is full; make room there, or keep fewer backups/],
  ['EIO', /reports an error; .*dmesg/],
  ['ESTALE', /does not answer; mount it again/],
  ['EWEIRD', /the system says EWEIRD; see to the disk/],
] as const)
  test(`a directory that fails with ${code} is told what fixes it (B13)`, () => {
    const fault = fileFault('/mnt/backups', Object.assign(new Error(code), { code }))
    assert.match(fault?.message ?? '', said)
    assert.doesNotMatch(fault?.message ?? '', /password/)
  })

test('a directory that is gone in the middle is told as gone, and nothing is made in its place (B13)', async () => {
  const to = join(folder, 'gone')
  mkdirSync(to)
  const place = openPlace(to, {}, deps)
  const octets = async function* (): AsyncIterable<Uint8Array> {
    yield Buffer.alloc(1000)
    rmSync(to, { recursive: true })
    yield Buffer.alloc(1000)
  }
  await assert.rejects(place.put('a.age', octets()), /gone: there is no such directory.*make it, or correct its name/)
  await assert.rejects(place.put('a.age', octets()), /no such directory/)
})
