// The DNS records of a domain, as both compatibility APIs show them.

/** The DNS types of records by their purpose. */
export const RECORD_TYPES: Readonly<Record<string, string>> = {
  DKIM: 'TXT',
  SPF: 'TXT',
  MAIL_FROM_MX: 'MX',
  DMARC: 'TXT',
  INBOUND_MX: 'MX',
  TRACKING: 'CNAME',
}

/** The priority and the host of an MX record. */
export function mxValue(value: unknown): { priority: number; host: string } | undefined {
  const [, priority, host] = /^(\d+) (\S+)$/.exec(String(value)) ?? []
  return priority === undefined || host === undefined ? undefined : { priority: Number(priority), host }
}
