// Bills of materials, in CycloneDX 1.5 and SPDX 2.3: two forms of one list of parts. The same list gives the same
// octets: the number of a document is made of its content.
import { createHash } from 'node:crypto'

export interface BillPart {
  /** Its package URL, by which other parts name it. */
  purl: string
  name: string
  version: string
  kind: 'application' | 'library' | 'container'
  /** An SPDX expression; undefined where nobody said one. */
  licence?: string | undefined
  hash?: { algorithm: 'SHA-256' | 'SHA-512'; hex: string }
  /** The vendor and product under which its vulnerabilities are listed (CPE). */
  cpe?: string
  /** The package URLs of the parts that it takes. */
  takes: readonly string[]
}

export interface Bill {
  subject: BillPart
  parts: readonly BillPart[]
  /** "2026-11-24T12:00:00Z" */
  date: string
  /** The version of what writes it. */
  tool: string
}

/** A UUID of octets of our own (RFC 9562 §5.8), made of a text. */
function uuidOf(text: string): string {
  const octets = createHash('sha256').update(text).digest().subarray(0, 16)
  octets.writeUInt8((octets.readUInt8(6) & 0x0f) | 0x80, 6)
  octets.writeUInt8((octets.readUInt8(8) & 0x3f) | 0x80, 8)
  return octets.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

const inOrder = (parts: readonly BillPart[]): BillPart[] => parts.toSorted((a, b) => (a.purl < b.purl ? -1 : 1))
const written = (document: object): string => `${JSON.stringify(document, null, 2)}\n`
const isId = (licence: string): boolean => /^[A-Za-z0-9.-]+$/.test(licence)
const cpeOf = ({ cpe, version }: BillPart): string => `cpe:2.3:a:${cpe}:${version}:*:*:*:*:*:*:*`

function component(part: BillPart): object {
  const { cpe, hash, kind, licence, name, purl, version } = part
  const [, group, own] = /^(@[^/]+)\/(.+)$/.exec(name) ?? [undefined, undefined, name]
  return {
    type: kind,
    'bom-ref': purl,
    ...(group === undefined ? {} : { group }),
    name: own,
    version,
    ...(hash ? { hashes: [{ alg: hash.algorithm, content: hash.hex }] } : {}),
    ...(licence === undefined
      ? {}
      : { licenses: [isId(licence) ? { license: { id: licence } } : { expression: licence }] }),
    ...(cpe === undefined ? {} : { cpe: cpeOf(part) }),
    purl,
  }
}

export function cycloneDx({ date, parts, subject, tool }: Bill): string {
  const all = inOrder(parts)
  const content = {
    version: 1,
    metadata: {
      timestamp: date,
      tools: { components: [{ type: 'application', name: 'postrider-sbom', version: tool }] },
      component: component(subject),
    },
    components: all.map(component),
    dependencies: [subject, ...all].map(({ purl, takes }) => ({ ref: purl, dependsOn: takes.toSorted() })),
  }
  const serialNumber = `urn:uuid:${uuidOf(JSON.stringify(content))}`
  return written({ bomFormat: 'CycloneDX', specVersion: '1.5', serialNumber, ...content })
}

const spdxId = (purl: string): string => `SPDXRef-${purl.replaceAll(/[^A-Za-z0-9.]+/g, '-')}`

function spdxPackage(part: BillPart): object {
  const { cpe, hash, kind, licence, name, purl, version } = part
  const reference = (referenceCategory: string, referenceType: string, referenceLocator: string): object => ({
    referenceCategory,
    referenceType,
    referenceLocator,
  })
  return {
    SPDXID: spdxId(purl),
    name,
    versionInfo: version,
    downloadLocation: 'NOASSERTION',
    filesAnalyzed: false,
    primaryPackagePurpose: kind.toUpperCase(),
    licenseConcluded: 'NOASSERTION',
    licenseDeclared: licence ?? 'NOASSERTION',
    copyrightText: 'NOASSERTION',
    ...(hash ? { checksums: [{ algorithm: hash.algorithm.replace('-', ''), checksumValue: hash.hex }] } : {}),
    externalRefs: [
      reference('PACKAGE-MANAGER', 'purl', purl),
      ...(cpe === undefined ? [] : [reference('SECURITY', 'cpe23Type', cpeOf(part))]),
    ],
  }
}

export function spdx({ date, parts, subject, tool }: Bill): string {
  const all = inOrder(parts)
  const relation = (spdxElementId: string, relationshipType: string, relatedSpdxElement: string): object => ({
    spdxElementId,
    relationshipType,
    relatedSpdxElement,
  })
  const name = `${subject.name}-${subject.version}`
  const content = {
    creationInfo: { created: date, creators: [`Tool: postrider-sbom-${tool}`] },
    packages: [subject, ...all].map(spdxPackage),
    relationships: [
      relation('SPDXRef-DOCUMENT', 'DESCRIBES', spdxId(subject.purl)),
      ...all.map(({ purl }) => relation(spdxId(subject.purl), 'CONTAINS', spdxId(purl))),
      ...[subject, ...all].flatMap(({ purl, takes }) =>
        takes.toSorted().map((other) => relation(spdxId(purl), 'DEPENDS_ON', spdxId(other))),
      ),
    ],
  }
  return written({
    spdxVersion: 'SPDX-2.3',
    dataLicense: 'CC0-1.0',
    SPDXID: 'SPDXRef-DOCUMENT',
    name,
    documentNamespace: `https://spdx.org/spdxdocs/${name}-${uuidOf(JSON.stringify([name, content]))}`,
    ...content,
  })
}
