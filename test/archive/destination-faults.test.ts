// The errors of a failing destination name the wrong setting, or the fix for the disk.
import assert from 'node:assert/strict'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { openDestination } from '../../src/archive/destinations/destination.ts'
import { fileFault } from '../../src/archive/destinations/fault.ts'
import { systemClock } from '../../src/base/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const folder = temporaryDirectory('destination-faults')
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
    'a redirect to another endpoint',
    307,
    { location: 'https://other.example.test/bucket?list-type=2' },
    error('TemporaryRedirect', '<Endpoint>bucket.s3.example.test</Endpoint>'),
    /returned TemporaryRedirect; check "backup\.s3\.endpoint", "backup\.s3\.region" and the name of the bucket\.$/,
  ],
  ['an inherited property name as its code', 403, {}, error('constructor'), /the server returned 403: constructor; /],
  [
    'a page that is not a list',
    200,
    {},
    '<html><body>Sign in</body></html>',
    /the response is not valid S3 XML; check the server log\.$/,
  ],
  [
    'a truncated list without a continuation token',
    200,
    {},
    '<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>',
    /a truncated list with no continuation token/,
  ],
  [
    'a list that repeats its continuation token',
    200,
    {},
    '<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>a</NextContinuationToken></ListBucketResult>',
    /a truncated list with a repeated continuation token/,
  ],
  [
    'a signature for another region',
    400,
    {},
    error('AuthorizationHeaderMalformed', '<Region>garage</Region>'),
    /returned AuthorizationHeaderMalformed; set "backup\.s3\.region" to "garage"\.$/,
  ],
  ['a redirect without a location', 302, {}, '', /the service returned 302; check "backup\.s3\.endpoint"/],
  [
    'an invalid region',
    301,
    { 'x-amz-bucket-region': 'a\u0022; rm' },
    error('PermanentRedirect'),
    /returned PermanentRedirect; check "backup\.s3\.endpoint"/,
  ],
] as const)
  test(`names the setting if a bucket returns ${what}`, async () => {
    const server = createServer((_, response) => response.writeHead(status, headers).end(body))
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const destination = openDestination('s3://bucket/mx', { s3: { endpoint, key_file } }, deps)
    try {
      await assert.rejects(async () => {
        for await (const _ of destination.list());
      }, said)
    } finally {
      await destination.close()
      server.close()
    }
  })

for (const [code, said] of [
  ['EACCES', /: user .*\d+.* has no permission there; grant it with "chown"/],
  ['EROFS', /read-only for this process; .*"ReadWritePaths="/],
  ['ENOENT', /the directory does not exist; create it, or correct its name in "backup\.to"/],
  ['ENOTDIR', /it is not a directory; create it, or correct its name/],
  ['ENOSPC', /the disk is full; free some space there, or keep fewer backups/],
  ['EIO', /reports an error; .*dmesg/],
  ['ESTALE', /does not respond; mount it again/],
  ['EWEIRD', /the system returned EWEIRD; check the disk/],
] as const)
  test(`names the fix if a directory fails with ${code}`, () => {
    const fault = fileFault('/mnt/backups', Object.assign(new Error(code), { code }))
    assert.match(fault?.message ?? '', said)
    assert.doesNotMatch(fault?.message ?? '', /password/)
  })

test('reports a directory that disappears during an upload, and does not create it again', async () => {
  const to = join(folder, 'gone')
  mkdirSync(to)
  const destination = openDestination(to, {}, deps)
  const bytes = async function* (): AsyncIterable<Uint8Array> {
    yield Buffer.alloc(1000)
    rmSync(to, { recursive: true })
    yield Buffer.alloc(1000)
  }
  await assert.rejects(
    destination.put('a.age', bytes()),
    /gone: the directory does not exist.*create it, or correct its name/,
  )
  await assert.rejects(destination.put('a.age', bytes()), /the directory does not exist \(is its disk mounted/)
})
