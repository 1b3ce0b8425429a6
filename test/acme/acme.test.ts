// The parts of ACME that need no authority (Pebble is met in test/interop/certificates.interop.ts): requests, the
// certificateStore, configuration, port 80.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash, createPrivateKey, createPublicKey, X509Certificate, type KeyObject } from 'node:crypto'
import { mkdtempSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeCertificate } from '../../src/base/certificate.ts'
import { parseConfig } from '../../src/base/config.ts'
import { pem } from '../../src/base/der.ts'
import { silentLog } from '../../src/base/log.ts'
import { renewalId } from '../../src/acme/renewals.ts'
import { certificateRequest } from '../../src/acme/request.ts'
import { CertificateStore } from '../../src/acme/certificate-files.ts'
import { createClearText } from '../../src/http/clear-text.ts'
import { createAcme, type AcmeParts } from '../../src/server/acme.ts'
import { Certificates } from '../../src/acme/certificates.ts'
import { advisedFor } from '../../src/domains/command-policies.ts'
import type { Resolver } from '../../src/net/resolver.ts'
import type { Domain } from '../../src/domains/find.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const folder = temporaryDirectory('acme')

const skip = spawnSync('openssl', ['version']).error ? 'no program "openssl"' : false
test('OpenSSL verifies the certificate request, with its name and key', { skip }, () => {
  const key = new CertificateStore(folder).key('a.example.org')
  const file = join(folder, 'request.pem')
  writeFileSync(file, pem('CERTIFICATE REQUEST', certificateRequest('a.example.org', key)))
  const said = execFileSync('openssl', ['req', '-in', file, '-verify', '-noout', '-text', '-pubkey'], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  assert.match(said, /DNS:a\.example\.org/)
  assert.ok(said.includes(String(createPublicKey(key).export({ type: 'spki', format: 'pem' })).trim()))
})

test('keeps a private key and the next one per name, and a certificate only with its key', () => {
  const certificateStore = new CertificateStore(folder)
  const pair = makeCertificate('b.example.org', Date.now())
  const key = certificateStore.key('b.example.org')
  assert.deepEqual(certificateStore.key('b.example.org').export({ format: 'jwk' }), key.export({ format: 'jwk' }))
  assert.notDeepEqual(
    certificateStore.nextKey('b.example.org')!.export({ format: 'jwk' }),
    key.export({ format: 'jwk' }),
  )
  assert.equal(statSync(join(folder, 'acme', 'b.example.org.key')).mode & 0o777, 0o600)
  certificateStore.keep('b.example.org', pair.cert)
  assert.equal(certificateStore.certificate('b.example.org'), undefined, 'of another key')
  writeFileSync(join(folder, 'acme', 'b.example.org.key'), pair.key)
  assert.equal(certificateStore.certificate('b.example.org')!.cert, pair.cert)
  assert.deepEqual(certificateStore.names(), ['b.example.org'])
  assert.equal(certificateStore.progress('b.example.org').failures, 0)
})

test('HTTPS uses the certificate of the requested host, or that of the public name for others', () => {
  const data_dir = mkdtempSync(join(folder, 'https-'))
  const certificateStore = new CertificateStore(data_dir)
  const pair = makeCertificate('b.example.org', Date.now())
  certificateStore.key('b.example.org')
  writeFileSync(join(data_dir, 'acme', 'b.example.org.key'), pair.key)
  certificateStore.keep('b.example.org', pair.cert)
  const config = parseConfig({
    hostname: 'mx.example.org',
    data_dir,
    http: { public_url: 'https://b.example.org' },
    acme: { enabled: true, accept_terms: true },
  })
  const certificates = new Certificates({
    clock: new ManualClock(Date.now()),
    log: silentLog,
    config,
    certificateStore,
  })
  assert.ok(new X509Certificate(certificates.first('https').cert).checkHost('b.example.org'))
  assert.ok(
    new X509Certificate(certificates.first('smtp').cert).checkHost('mx.example.org'),
    'self-made until one comes',
  )
  assert.ok(certificates.contextOf('B.example.org'))
  assert.equal(certificates.contextOf('evil.example.org'), undefined)
  assert.equal(certificates.contextOf('../../etc/passwd'), undefined)
})

test('TLSA records contain the current and the next key with ACME, and never a key that will be replaced', async () => {
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
    const deps = { clock, config, resolver: { a: txt, aaaa: txt, ptr: txt, txt, tlsa: txt } as unknown as Resolver }
    const domain = { name: 'example.org', sts_mode: 'none', sts_changed_at: null } as Domain
    const certificateStore = new CertificateStore(data_dir)
    return {
      certificateStore,
      certificates: new Certificates({ clock, log: silentLog, config, certificateStore }),
      tlsa: async () => (await advisedFor(deps, domain)).flatMap(({ type, value }) => (type === 'TLSA' ? [value] : [])),
    }
  }
  const tlsaOf = (key: KeyObject): string =>
    `3 1 1 ${createHash('sha256')
      .update(createPublicKey(key).export({ type: 'spki', format: 'der' }))
      .digest('hex')}`
  const { certificates, certificateStore, tlsa } = begin()
  const before = await tlsa()
  assert.deepEqual(before, [
    tlsaOf(certificateStore.key('mx.example.org')),
    tlsaOf(certificateStore.nextKey('mx.example.org')!),
  ])
  const selfMade = certificates.first('smtp')
  assert.equal(tlsaOf(createPrivateKey(selfMade.key)), before[0], 'what is shown meanwhile has that key')
  // The first certificate of the authority has it too.
  certificateStore.keep('mx.example.org', selfMade.cert)
  assert.equal(certificateStore.certificate('mx.example.org')!.cert, certificates.first('smtp').cert)
  assert.deepEqual(await tlsa(), before)
  const ordered = begin()
  ordered.certificateStore.key('mx.example.org')
  assert.deepEqual(await ordered.tlsa(), [], 'a key was ordered with before, and another is shown')
  const unreadable = begin({ tls: { cert: join(folder, 'nowhere.crt'), key: join(folder, 'nowhere.key') } })
  assert.deepEqual(await unreadable.tlsa(), [])
})

/** Of a certificate of Let's Encrypt's staging, as RFC 9773 §4.1 shows one. */
test('the renewal identifier matches the example in RFC 9773', () => {
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

test('an unusable configuration prevents the start with one sentence', () => {
  const parts = (acme: object, hostname = 'mx.example.org') =>
    ({ config: parseConfig({ hostname, data_dir: folder, acme: { enabled: true, ...acme } }) }) as AcmeParts
  assert.equal(createAcme({ config: parseConfig({}) } as AcmeParts), undefined)
  assert.throws(() => createAcme(parts({})), /"acme\.accept_terms" is false/)
  assert.throws(
    () => createAcme(parts({ accept_terms: true }, 'localhost')),
    /"hostname" is "localhost", which is not a public name/,
  )
  assert.throws(() => createAcme(parts({ accept_terms: true, ca_file: '/nowhere' })), /"acme\.ca_file" \(\/nowhere\)/)
  assert.throws(() => createAcme(parts({ accept_terms: true, eab_kid: 'x' })), /needs two settings; set both/)
  assert.throws(() => parseConfig({ acme: { directory: 'http://ca.example/' } }), /must be an https URL/)
})

test('port 80 serves proofs during an order, and redirects to HTTPS only on our own hosts', async () => {
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
