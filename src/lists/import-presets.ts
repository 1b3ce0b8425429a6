// The exports of other programs: the titles of their columns, and internal columns that are not imported.

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

export const PRESETS = {
  mailchimp: {
    called: 'Mailchimp',
    email: ['Email Address'],
    first: 'First Name',
    last: 'Last Name',
    ignore: [
      'MEMBER_RATING',
      'OPTIN_TIME',
      'OPTIN_IP',
      'CONFIRM_TIME',
      'CONFIRM_IP',
      'LATITUDE',
      'LONGITUDE',
      'GMTOFF',
      'DSTOFF',
      'TIMEZONE',
      'CC',
      'REGION',
      'LAST_CHANGED',
      'LEID',
      'EUID',
      'NOTES',
      'UNSUB_CAMPAIGN_TITLE',
      'UNSUB_CAMPAIGN_ID',
      'UNSUB_REASON',
      'UNSUB_REASON_OTHER',
      'CLEAN_CAMPAIGN_TITLE',
      'CLEAN_CAMPAIGN_ID',
    ],
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
    silent:
      'SendGrid exports those who left as suppressions: import them with "postrider suppression import FILE --from sendgrid".',
  },
  mailerlite: {
    called: 'MailerLite',
    email: ['Email', 'Subscriber'],
    first: 'Name',
    last: 'Last name',
    ignore: [
      'Sent',
      'Opened',
      'Opens',
      'Opens count',
      'Open rate',
      'Clicked',
      'Clicks',
      'Clicks count',
      'Click rate',
      'Signup ip',
      'Signup date',
      'Signup timestamp',
      'Confirmation ip',
      'Confirmation date',
      'Confirmation timestamp',
      'Location',
      'Updated',
    ],
    silent: 'MailerLite exports those who left in files of their own or in the column Status: import them as well.',
  },
} as const satisfies Record<string, Preset>

export type PresetName = keyof typeof PRESETS
