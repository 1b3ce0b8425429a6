// TLS-ALPN-01 (RFC 8737) without a CA: the certificate in handshakes during a proof, and the order of challenge types.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash, X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { connect, type ConnectionOptions } from 'node:tls'
import { AcmeClient, AcmeRefusal, type ChallengeType } from '../../src/acme/client.ts'
import { proofCertificate } from '../../src/acme/alpn.ts'
import type { CaAnswer } from '../../src/acme/http.ts'
import { Renewals } from '../../src/acme/renewals.ts'
import { CertificateStore } from '../../src/acme/certificate-files.ts'
import { listen, type HttpListener } from '../../src/http/listen.ts'
import { makeCertificate, type Certificate } from '../../src/base/certificate.ts'
import { HOUR } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/log.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const NAME = 'mx.example.org'
const AUTHORIZATION = 'token.thumbprint'
const folder = temporaryDirectory('alpn')
const own = makeCertificate(NAME, Date.now())
const proofs = new Map<string, Certificate>()
let listener: HttpListener

before(async () => {
  listener = await listen(
    { fetch: () => new Response('here') },
    { host: '127.0.0.1', port: 0 },
    {
      clock: new ManualClock(),
      key: 'http.tls_listen',
      tls: { certificate: own, contextOf: () => undefined, proofFor: (name) => proofs.get(name) },
    },
  )
})
after(async () => {
  await listener.close(0)
})

interface Agreed {
  protocol: string | false | null
  certificate: X509Certificate
  /** The server has ended the connection. */
  ended: Promise<unknown>
  end: () => void
}

const shake = (options: ConnectionOptions): Promise<Agreed> =>
  new Promise((resolve, reject) => {
    const socket = connect(
      { host: '127.0.0.1', port: listener.port, servername: NAME, rejectUnauthorized: false, ...options },
      () =>
        resolve({
          protocol: socket.alpnProtocol,
          certificate: new X509Certificate(socket.getPeerCertificate().raw),
          ended: new Promise((done) => socket.on('end', done).resume()),
          end: () => socket.destroy(),
        }),
    )
    socket.on('error', reject)
  })

const skip = spawnSync('openssl', ['version']).error ? 'no program "openssl"' : false
test(
  'the certificate of a proof has only the name and, in a critical extension, the digest (OpenSSL)',
  { skip },
  () => {
    const said = execFileSync('openssl', ['x509', '-noout', '-text'], {
      input: proofCertificate(NAME, AUTHORIZATION, Date.now()).cert,
      encoding: 'utf8',
    })
    assert.match(said, /X509v3 Subject Alternative Name:\s*DNS:mx\.example\.org\n/)
    assert.match(said, /(?:1\.3\.6\.1\.5\.5\.7\.1\.31|acmeIdentifier)[^\n]*: critical\n/)
  },
)

test('negotiates acme-tls/1 only for the name of a proof, without affecting other handshakes', async () => {
  const refused = { ALPNProtocols: ['acme-tls/1'] }
  await assert.rejects(shake(refused), /alert|no application protocol/i)
  proofs.set(NAME, proofCertificate(NAME, AUTHORIZATION, Date.now()))
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    const options = { minVersion: version, maxVersion: version }
    const proof = await shake({ ...options, ALPNProtocols: ['acme-tls/1'] })
    assert.equal(proof.protocol, 'acme-tls/1')
    assert.equal(proof.certificate.subjectAltName, `DNS:${NAME}`)
    assert.notEqual(proof.certificate.fingerprint256, new X509Certificate(own.cert).fingerprint256)
    const digest = createHash('sha256').update(AUTHORIZATION).digest()
    assert.ok(proof.certificate.raw.includes(Buffer.concat([Buffer.from([0x04, 0x22, 0x04, 0x20]), digest])))
    await proof.ended
    proof.end()
    for (const protocols of [['http/1.1'], ['h2', 'http/1.1'], ['acme-tls/1', 'http/1.1'], undefined]) {
      const plain = await shake({ ...options, ...(protocols && { ALPNProtocols: protocols }) })
      assert.equal(plain.protocol, protocols ? 'http/1.1' : false)
      assert.equal(plain.certificate.fingerprint256, new X509Certificate(own.cert).fingerprint256)
      plain.end()
    }
    await assert.rejects(shake({ ...options, servername: 'other.example.org', ...refused }), /alert|protocol/i)
  }
  proofs.clear()
  await assert.rejects(shake(refused), /alert|no application protocol/i, 'as soon as the proof is over')
})

/** An authority that offers these ways, and to which no proof comes through. */
function authority(offered: readonly ChallengeType[]) {
  const tried: string[] = []
  const shown: boolean[] = []
  const fetch = async (url: string, { method = 'GET' } = {}): Promise<CaAnswer> => {
    const answer = (body: object, status = 200): CaAnswer => ({
      status,
      headers: { 'replay-nonce': 'n', location: 'https://ca.test/at' },
      text: JSON.stringify(body),
    })
    if (method === 'HEAD') return answer({})
    const { pathname } = new URL(url)
    if (pathname === '/dir')
      return answer({ newNonce: 'https://ca.test/n', newAccount: 'https://ca.test/a', newOrder: 'https://ca.test/o' })
    if (pathname === '/o')
      return answer({ status: 'pending', authorizations: ['https://ca.test/z'], finalize: 'https://ca.test/f' })
    const [, , way] = pathname.split('/')
    if (way !== undefined) {
      tried.push(way)
      shown.push(renewals?.proofFor(NAME) !== undefined)
    }
    if (pathname !== '/z') return answer({})
    const last = tried.at(-1)
    const challenges = offered.map((type) => ({
      type,
      url: `https://ca.test/c/${type}`,
      token: 't',
      status: 'pending',
    }))
    if (!judged || last === undefined) return answer({ status: 'pending', challenges })
    const error = { type: 'urn:ietf:params:acme:error:connection', detail: `no way in by ${last}` }
    return answer({ status: 'invalid', challenges: challenges.map((each) => ({ ...each, error })) })
  }
  let renewals: Renewals | undefined
  let asked = 0
  let judged = false
  // The authorization is read once before a proof is shown, then until it is judged.
  const counted: typeof fetch = (url, options) => {
    if (url.endsWith('/z')) judged = asked++ % 2 === 1
    return fetch(url, options)
  }
  return { fetch: counted, tried, shown, watch: (of: Renewals) => void (renewals = of) }
}

test('tries every open challenge type the first time, then one per retry in turn', async () => {
  const clock = new ManualClock()
  const ca = authority(['http-01', 'tls-alpn-01'])
  const certificateStore = new CertificateStore(join(folder, 'turn'))
  const renewals = new Renewals({
    clock,
    log: silentLog,
    certificateStore,
    names: async () => [NAME],
    client: { directory: 'https://ca.test/dir', email: '', fetch: ca.fetch },
    ways: ['http-01', 'tls-alpn-01'],
    renewed: () => {},
  })
  ca.watch(renewals)
  await renewals.run()
  assert.deepEqual(ca.tried, ['http-01', 'tls-alpn-01'])
  assert.deepEqual(ca.shown, [false, true], 'the handshake shows a proof while it lasts')
  assert.equal(renewals.proofFor(NAME), undefined)
  assert.equal(certificateStore.progress(NAME).error, 'no way in by tls-alpn-01')
  for (const way of ['tls-alpn-01', 'http-01']) {
    clock.leap(HOUR)
    await renewals.run()
    assert.equal(ca.tried.at(-1), way)
  }
  assert.equal(ca.tried.length, 4)
})

test('selects a challenge that this server supports and the CA offers', async () => {
  const account = { directory: 'https://ca.test/dir', url: 'https://ca.test/at', key: own.key }
  const wayOf = async (open: readonly ChallengeType[], offered: readonly ChallengeType[]): Promise<string> => {
    const { fetch, tried } = authority(offered)
    const client = new AcmeClient(
      { directory: 'https://ca.test/dir', email: '', fetch, clock: new ManualClock() },
      account,
    )
    const thrown: unknown = await client
      .certificate(NAME, new CertificateStore(folder).key(NAME), open, () => () => {})
      .catch((reason: unknown) => reason)
    assert.ok(thrown instanceof AcmeRefusal)
    return tried[0] ?? thrown.message
  }
  const both: ChallengeType[] = ['http-01', 'tls-alpn-01']
  assert.equal(await wayOf(both, both), 'http-01')
  assert.equal(await wayOf(both, ['tls-alpn-01']), 'tls-alpn-01', 'HTTP-01 is not offered')
  assert.equal(await wayOf(['tls-alpn-01'], both), 'tls-alpn-01', 'port 80 is not open')
  assert.match(await wayOf(['http-01'], ['tls-alpn-01']), /offers tls-alpn-01, but this server supports http-01/)
  assert.match(await wayOf([], both), /this server supports no challenge \("acme\.listen", "http\.tls_listen"\)/)
})
