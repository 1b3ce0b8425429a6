// Export formats of other services. Contact lists: column titles, and internal columns that are not imported.
// Suppression lists: the reason of a file without reasons.
import { namesIn } from '../base/one-of.ts'
import type { Reason } from '../suppressions/suppressions.ts'

export interface Preset {
  /** The name of the service. */
  called: string
  /** Titles of the address column, case-insensitive. */
  email: readonly string[]
  first?: string
  last?: string
  /** Columns that are not imported. */
  ignore: readonly string[]
  /** Columns that become fields although they look like a status. */
  fields?: readonly string[]
  /** A warning for a file without information about unsubscribed contacts. */
  silent?: string
}

/** Titles of columns. */
const columns = (text: string): string[] => text.trim().split(/,\s+/)

/** Contact lists. */
export const PRESETS = {
  mailchimp: {
    called: 'Mailchimp',
    email: ['Email Address'],
    first: 'First Name',
    last: 'Last Name',
    ignore: columns(`
      MEMBER_RATING, OPTIN_TIME, OPTIN_IP, CONFIRM_TIME, CONFIRM_IP, LATITUDE, LONGITUDE, GMTOFF, DSTOFF,
      TIMEZONE, CC, REGION, LAST_CHANGED, LEID, EUID, NOTES, UNSUB_CAMPAIGN_TITLE, UNSUB_CAMPAIGN_ID,
      UNSUB_REASON, UNSUB_REASON_OTHER, CLEAN_CAMPAIGN_TITLE, CLEAN_CAMPAIGN_ID`),
    silent:
      'Mailchimp exports unsubscribed contacts as separate files (unsubscribed_…, cleaned_…). Import them as well.',
  },
  brevo: {
    called: 'Brevo',
    email: ['EMAIL'],
    first: 'FIRSTNAME',
    last: 'LASTNAME',
    ignore: ['CONTACT ID', 'SMS_BLACKLIST', 'WHATSAPP_BLACKLIST', 'ADDED_TIME', 'MODIFIED_TIME', '_LISTIDS'],
    // The sign-up source. Unsubscribed contacts are marked in EMAIL_BLACKLIST.
    fields: ['OPT_IN', 'DOUBLE_OPT-IN'],
    silent: 'Brevo marks blocklisted contacts in the column EMAIL_BLACKLIST, which this file does not have.',
  },
  listmonk: {
    called: 'listmonk',
    email: ['email'],
    ignore: ['uuid', 'created_at', 'updated_at'],
    silent: 'listmonk marks blocklisted contacts in the column status, which this file does not have.',
  },
  sendgrid: {
    called: 'SendGrid',
    email: ['EMAIL'],
    first: 'FIRST_NAME',
    last: 'LAST_NAME',
    ignore: ['ALTERNATE_EMAILS', 'CONTACT_ID', 'CREATED_AT', 'UPDATED_AT'],
    silent:
      'SendGrid exports unsubscribed contacts as suppressions. Import them as well, as suppressions from SendGrid.',
  },
  mailerlite: {
    called: 'MailerLite',
    email: ['Email', 'Subscriber'],
    first: 'Name',
    last: 'Last name',
    ignore: columns(`
      Sent, Opened, Opens, Opens count, Open rate, Clicked, Clicks, Clicks count, Click rate, Signup ip, Signup
      date, Signup timestamp, Confirmation ip, Confirmation date, Confirmation timestamp, Location, Updated`),
    silent: 'MailerLite exports unsubscribed contacts as separate files or in the column Status. Import them as well.',
  },
} as const satisfies Record<string, Preset>

export type PresetName = keyof typeof PRESETS

/** The number of known titles that identify a service. */
const TELLING = 3

/** Returns the service that exported a file, by its column titles, or undefined if they are not specific. */
export function programOf(titles: readonly string[]): PresetName | undefined {
  const there = new Set(titles)
  const matches = namesIn(PRESETS).map((name) => {
    const { email, ignore, ...names }: Preset = PRESETS[name]
    const telling = [...ignore, ...email, names.first ?? '', names.last ?? '']
    return { name, sum: telling.filter((title) => title !== '' && there.has(title)).length }
  })
  const [best] = matches.toSorted((one, other) => other.sum - one.sum)
  return best && best.sum >= TELLING ? best.name : undefined
}

export interface Suppressor {
  /** Titles with another meaning than in other lists. */
  replies?: readonly string[]
  /**
   * The reason of a whole file, by its columns and its name. `no` contains an explanation if the file is not a
   * suppression list.
   */
  kind?: (has: (title: string) => boolean, file: string) => Reason | { no: string } | undefined
}

/** Suppression lists. */
export const SUPPRESSORS = {
  ses: {},
  mailgun: {
    kind: (has, file) =>
      has('code') || has('error') || /bounce/i.test(file)
        ? 'hard_bounce'
        : has('tags') || has('tag') || /unsub/i.test(file)
          ? 'unsubscribe'
          : 'complaint',
  },
  sendgrid: {
    // "status" and "reason" are the reply of the receiving server.
    replies: ['status', 'reason'],
    kind: (has, file) => {
      if (/block/i.test(file)) return { no: 'SendGrid keeps sending to addresses that it lists as blocks' }
      if (/bounce|invalid/i.test(file) || has('reason')) return 'hard_bounce'
      if (/spam/i.test(file) || has('ip')) return 'complaint'
      return /unsub|group|global/i.test(file) ? 'unsubscribe' : undefined
    },
  },
  postmark: {},
  brevo: {},
  mailchimp: {},
  listmonk: {},
} as const satisfies Record<string, Suppressor>

export type SuppressorName = keyof typeof SUPPRESSORS
