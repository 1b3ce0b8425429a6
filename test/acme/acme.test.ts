// The parts of ACME that need no authority (Pebble is met in test/interop/certificates.interop.ts): requests, the
// shelf, configuration, port 80.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash, createPrivateKey, createPublicKey, X509Certificate, type KeyObject } from 'node:crypto'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { makeCertificate } from '../../src/base/certificate.ts'
import { parseConfig } from '../../src/base/config.ts'
import { pem } from '../../src/base/der.ts'
import { silentLog } from '../../src/base/log.ts'
import { renewalId } from '../../src/acme/renewals.ts'
import { certificateRequest } from '../../src/acme/request.ts'
import { Shelf } from '../../src/acme/certificate-files.ts'
import { createClearText } from '../../src/http/clear-text.ts'
import { createAcme, type AcmeParts } from '../../src/server/acme.ts'
import { Certificates } from '../../src/acme/certificates.ts'
import { advisedFor } from '../../src/domains/command-policies.ts'
import type { Resolver } from '../../src/net/resolver.ts'
import type { Domain } from '../../src/domains/find.ts'
import { ManualClock } from '../kit/clock.ts'

const folder = mkdtempSync(join(tmpdir(), 'postrider-acme-'))
after(() => rmSync(folder, { recursive: true }))

const skip = spawnSync('openssl', ['version']).error ? 'no program "openssl"' : false
test('a request is one that OpenSSL verifies, for the name and with the key', { skip }, () => {
  const key = new Shelf(folder).key('a.example.org')
  const file = join(folder, 'request.pem')
  writeFileSync(file, pem('CERTIFICATE REQUEST', certificateRequest('a.example.org', key)))
  const said = execFileSync('openssl', ['req', '-in', file, '-verify', '-noout', '-text', '-pubkey'], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  assert.match(said, /DNS:a\.example\.org/)
  assert.ok(said.includes(String(createPublicKey(key).export({ type: 'spki', format: 'pem' })).trim()))
})

test('the shelf: a key and the one after it, kept and for us alone; a certificate only with its key', () => {
  const shelf = new Shelf(folder)
  const pair = makeCertificate('b.example.org', Date.now())
  const key = shelf.key('b.example.org')
  assert.deepEqual(shelf.key('b.example.org').export({ format: 'jwk' }), key.export({ format: 'jwk' }))
  assert.notDeepEqual(shelf.nextKey('b.example.org')!.export({ format: 'jwk' }), key.export({ format: 'jwk' }))
  assert.equal(statSync(join(folder, 'acme', 'b.example.org.key')).mode & 0o777, 0o600)
  shelf.keep('b.example.org', pair.cert)
  assert.equal(shelf.certificate('b.example.org'), undefined, 'of another key')
  writeFileSync(join(folder, 'acme', 'b.example.org.key'), pair.key)
  assert.equal(shelf.certificate('b.example.org')!.cert, pair.cert)
  assert.deepEqual(shelf.names(), ['b.example.org'])
  assert.equal(shelf.progress('b.example.org').failures, 0)
})

test('HTTPS shows each host its own certificate, and that of the public name to all others', () => {
  const data_dir = mkdtempSync(join(folder, 'https-'))
  const shelf = new Shelf(data_dir)
  const pair = makeCertificate('b.example.org', Date.now())
  shelf.key('b.example.org')
  writeFileSync(join(data_dir, 'acme', 'b.example.org.key'), pair.key)
  shelf.keep('b.example.org', pair.cert)
  const config = parseConfig({
    hostname: 'mx.example.org',
    data_dir,
    http: { public_url: 'https://b.example.org' },
    acme: { enabled: true, accept_terms: true },
  })
  const certificates = new Certificates({ clock: new ManualClock(Date.now()), log: silentLog, config, shelf })
  assert.ok(new X509Certificate(certificates.first('https').cert).checkHost('b.example.org'))
  assert.ok(
    new X509Certificate(certificates.first('smtp').cert).checkHost('mx.example.org'),
    'self-made until one comes',
  )
  assert.ok(certificates.contextOf('B.example.org'))
  assert.equal(certificates.contextOf('evil.example.org'), undefined)
  assert.equal(certificates.contextOf('../../etc/passwd'), undefined)
})

test('TLSA of a server with ACME: the key that is shown and stays, and the next one; none of a key that will be replaced', async () => {
  const begin = (more: object = {}) => {
    const data_dir = mkdtempSync(join(folder, 'tlsa-'))
    const config = parseConfig({
      hostname: 'mx.example.org',
      data_dir,
      acme: { enabled: true, accept_terms: true },
      ...more,
    })
    const clock = new ManualClock(Date.now())
    const txt = async () => ({ kind: 'none' }) as const
    const deps = { clock, config, resolver: { txt, tlsa: txt } as unknown as Resolver }
    const domain = { name: 'example.org', sts_mode: 'none', sts_changed_at: null } as Domain
    const shelf = new Shelf(data_dir)
    return {
      shelf,
      certificates: new Certificates({ clock, log: silentLog, config, shelf }),
      tlsa: async () => (await advisedFor(deps, domain)).flatMap(({ type, value }) => (type === 'TLSA' ? [value] : [])),
    }
  }
  const tlsaOf = (key: KeyObject): string =>
    `3 1 1 ${createHash('sha256')
      .update(createPublicKey(key).export({ type: 'spki', format: 'der' }))
      .digest('hex')}`
  const { certificates, shelf, tlsa } = begin()
  const before = await tlsa()
  assert.deepEqual(before, [tlsaOf(shelf.key('mx.example.org')), tlsaOf(shelf.nextKey('mx.example.org')!)])
  const selfMade = certificates.first('smtp')
  assert.equal(tlsaOf(createPrivateKey(selfMade.key)), before[0], 'what is shown meanwhile has that key')
  // The first certificate of the authority has it too.
  shelf.keep('mx.example.org', selfMade.cert)
  assert.equal(shelf.certificate('mx.example.org')!.cert, certificates.first('smtp').cert)
  assert.deepEqual(await tlsa(), before)
  const ordered = begin()
  ordered.shelf.key('mx.example.org')
  assert.deepEqual(await ordered.tlsa(), [], 'a key was ordered with before, and another is shown')
  const unreadable = begin({ tls: { cert: join(folder, 'nowhere.crt'), key: join(folder, 'nowhere.key') } })
  assert.deepEqual(await unreadable.tlsa(), [])
})

/** Of a certificate of Let's Encrypt's staging, as RFC 9773 §4.1 shows one. */
test('the renewal identifier is that of RFC 9773', () => {
  const example = `-----BEGIN CERTIFICATE-----
MIIBQzCB66ADAgECAgUAh2VDITAKBggqhkjOPQQDAjAVMRMwEQYDVQQDEwpFeGFt
cGxlIENBMCIYDzAwMDEwMTAxMDAwMDAwWhgPMDAwMTAxMDEwMDAwMDBaMBYxFDAS
BgNVBAMTC2V4YW1wbGUuY29tMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEeBZu
7cbpAYNXZLbbh8rNIzuOoqOOtmxA1v7cRm//AwyMwWxyHz4zfwmBhcSrf47NUAFf
qzLQ2PPQxdTXREYEnKMjMCEwHwYDVR0jBBgwFoAUaYhba4dGQEHhs3uEe6CuLN4B
yNQwCgYIKoZIzj0EAwIDRwAwRAIge09+S5TZAlw5tgtiVvuERV6cT4mfutXIlwTb
+FYN/8oCIClDsqBklhB9KAelFiYt9+6FDj3z4KGVelYM5MdsO3pK
-----END CERTIFICATE-----`
  assert.equal(renewalId(new X509Certificate(example)), 'aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE')
  assert.equal(renewalId(new X509Certificate(makeCertificate('x.test', Date.now()).cert)), undefined)
})

test('a configuration that cannot work stops the start with a sentence', () => {
  const parts = (acme: object, hostname = 'mx.example.org') =>
    ({ config: parseConfig({ hostname, data_dir: folder, acme: { enabled: true, ...acme } }) }) as AcmeParts
  assert.equal(createAcme({ config: parseConfig({}) } as AcmeParts), undefined)
  assert.throws(() => createAcme(parts({})), /"acme\.accept_terms = true"/)
  assert.throws(() => createAcme(parts({ accept_terms: true }, 'localhost')), /"hostname" that the world knows/)
  assert.throws(() => createAcme(parts({ accept_terms: true, ca_file: '/nowhere' })), /"acme\.ca_file" \(\/nowhere\)/)
  assert.throws(() => createAcme(parts({ accept_terms: true, eab_kid: 'x' })), /needs both/)
  assert.throws(() => parseConfig({ acme: { directory: 'http://ca.example/' } }), /must be an https address/)
})

test('port 80: proofs while they are asked for, and the way to HTTPS, never to a host that is not ours', async () => {
  const app = createClearText({
    proofOf: (token) => (token === 'abc' ? 'abc.thumb' : undefined),
    serves: (host) => host === 'links.example.org',
    origin: () => 'https://mail.example.org',
  })
  const ask = (path: string, host: string) => app.request(`http://${host}${path}`, { headers: { host } })
  assert.equal(await (await ask('/.well-known/acme-challenge/abc', 'x.test')).text(), 'abc.thumb')
  assert.equal((await ask('/.well-known/acme-challenge/other', 'x.test')).status, 404)
  for (const [host, wanted] of [
    ['links.example.org', 'https://links.example.org/t/c/1?x=2'],
    ['evil.test', 'https://mail.example.org/t/c/1?x=2'],
    ['LINKS.example.org:80', 'https://links.example.org/t/c/1?x=2'],
  ] as const) {
    const answer = await ask('/t/c/1?x=2', host)
    assert.deepEqual([answer.status, answer.headers.get('location')], [301, wanted], host)
  }
  const double = await ask('//evil.test/', 'x.test')
  assert.equal(double.headers.get('location'), 'https://mail.example.org//evil.test/')
})
