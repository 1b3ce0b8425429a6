// The exports of other programs. Of lists of people: the titles of their columns, and internal columns that are not
// imported. Of lists of suppressions: what a file means whose rows give no reason.
import { namesIn } from '../base/one-of.ts'
import type { Reason } from '../suppressions/suppressions.ts'

export interface Preset {
  /** The name of the program. */
  called: string
  /** Titles of the address column; upper and lower case are the same. */
  email: readonly string[]
  first?: string
  last?: string
  /** Columns that are not imported. */
  ignore: readonly string[]
  /** A warning for a file without information about unsubscribed people. */
  silent?: string
}

/** Titles of columns. */
const columns = (text: string): string[] => text.trim().split(/,\s+/)

/** Lists of people. */
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
    silent: 'Mailchimp exports those who left in files of their own (unsubscribed_…, cleaned_…): import them as well.',
  },
  brevo: {
    called: 'Brevo',
    email: ['EMAIL'],
    first: 'FIRSTNAME',
    last: 'LASTNAME',
    ignore: ['CONTACT ID', 'SMS_BLACKLIST', 'WHATSAPP_BLACKLIST', 'ADDED_TIME', 'MODIFIED_TIME', '_LISTIDS'],
    silent: 'Brevo exports who is blocklisted in the column EMAIL_BLACKLIST, which this file does not have.',
  },
  listmonk: {
    called: 'listmonk',
    email: ['email'],
    ignore: ['uuid', 'created_at', 'updated_at'],
    silent: 'listmonk exports who is blocklisted in the column status, which this file does not have.',
  },
  sendgrid: {
    called: 'SendGrid',
    email: ['EMAIL'],
    first: 'FIRST_NAME',
    last: 'LAST_NAME',
    ignore: ['ALTERNATE_EMAILS', 'CONTACT_ID', 'CREATED_AT', 'UPDATED_AT'],
    silent: 'SendGrid exports those who left as suppressions: import them as well, as suppressions of SendGrid.',
  },
  mailerlite: {
    called: 'MailerLite',
    email: ['Email', 'Subscriber'],
    first: 'Name',
    last: 'Last name',
    ignore: columns(`
      Sent, Opened, Opens, Opens count, Open rate, Clicked, Clicks, Clicks count, Click rate, Signup ip, Signup
      date, Signup timestamp, Confirmation ip, Confirmation date, Confirmation timestamp, Location, Updated`),
    silent: 'MailerLite exports those who left in files of their own or in the column Status: import them as well.',
  },
} as const satisfies Record<string, Preset>

export type PresetName = keyof typeof PRESETS

/** The most telling titles that a file must have to be known by them. */
const TELLING = 3

/** The program that wrote a file, by its titles; undefined when they do not say. */
export function programOf(titles: readonly string[]): PresetName | undefined {
  const there = new Set(titles)
  const told = namesIn(PRESETS).map((name) => {
    const { email, ignore, ...names }: Preset = PRESETS[name]
    const telling = [...ignore, ...email, names.first ?? '', names.last ?? '']
    return { name, sum: telling.filter((title) => title !== '' && there.has(title)).length }
  })
  const [best] = told.toSorted((one, other) => other.sum - one.sum)
  return best && best.sum >= TELLING ? best.name : undefined
}

export interface Suppressor {
  /** Titles that mean something else than in other lists. */
  replies?: readonly string[]
  /**
   * The reason of a whole file, by its columns and its name; `no` with an explanation when the file is not a list of
   * suppressions.
   */
  kind?: (has: (title: string) => boolean, file: string) => Reason | { no: string } | undefined
}

/** Lists of suppressions. */
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
    // "status" and "reason" are the exchanger's reply.
    replies: ['status', 'reason'],
    kind: (has, file) => {
      if (/block/i.test(file)) return { no: 'SendGrid goes on mailing what it lists as blocks' }
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
