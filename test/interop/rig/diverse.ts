// Five hundred emails as customers of a server write them: API emails, and campaigns in the designs of the editor. They
// are the same each time.
import { bodyOf } from '../../../src/campaigns/body-parts.ts'
import { buttonStyle, DESIGNS } from '../../../src/campaigns/designs.ts'
import { escapeHtml } from '../../../src/message/template.ts'
import { seeded } from '../../kit/seeded.ts'

export const FROM = 'shop.example.com'
/** A sending domain that tracks opens and clicks. */
export const TRACKING = 'news.example.com'
/** Domains of the recipients. */
export const DOMAINS = ['example.org', 'example.net', 'mail.example.org']
const SITE = `https://www.${FROM}`
const POSTED = 392
const READERS = 9

/** The texts of a shop: a person's name, a subject, a greeting, sentences, a button label, the closing. */
interface Language {
  person: string
  subject: string
  greeting: string
  sentences: readonly string[]
  button: string
  end: string
}

const language = (person: string, subject: string, greeting: string, text: string, button: string, end: string) => ({
  person,
  subject,
  greeting,
  sentences: text.split('|'),
  button,
  end,
})

const LANGUAGES: readonly Language[] = [
  language(
    'Mary O’Neil',
    'Your order 4711 has left our warehouse',
    'Dear Mary,',
    'thank you for your order.|It left our warehouse this morning and reaches you on Friday.|The invoice is in your account, where you can also change the address.|If anything is missing, answer this mail and we will send it at once.',
    'See your order',
    'Kind regards',
  ),
  language(
    'Jürgen Weiß',
    'Ihre Bestellung für Dienstag: Größe geändert',
    'Guten Tag Herr Weiß,',
    'vielen Dank für Ihre Bestellung.|Wir haben die Größe geändert, wie Sie es wünschten, und schicken das Paket am Dienstag.|Die Rechnung über 49,90 € liegt in Ihrem Konto.|Bei Rückfragen antworten Sie einfach auf diese Nachricht.',
    'Zur Bestellung',
    'Mit freundlichen Grüßen',
  ),
  language(
    'François Lefèvre',
    'Votre réservation à l’hôtel est confirmée',
    'Bonjour François,',
    'nous avons le plaisir de confirmer votre réservation.|La chambre est prête dès quinze heures, et le petit déjeuner est servi jusqu’à dix heures.|Vous pouvez modifier les dates à tout moment depuis votre espace.|À très bientôt chez nous.',
    'Voir la réservation',
    'Cordialement',
  ),
  language(
    'José Núñez',
    '¿Cómo fue su visita? La próxima cita es el miércoles',
    'Estimado José:',
    'gracias por su visita de ayer.|La próxima cita es el miércoles a las nueve y media de la mañana.|Si necesita cambiarla, puede hacerlo desde nuestra página o responder a este mensaje.|El aparcamiento está detrás del edificio.',
    'Cambiar la cita',
    'Un saludo',
  ),
  language(
    'Niccolò D’Angiò',
    'La fattura di novembre è disponibile',
    'Gentile Niccolò,',
    'la fattura di novembre è disponibile nella sua area personale.|L’importo sarà addebitato il giorno quindici, come sempre.|Può scaricare tutte le fatture dell’anno in un solo documento.|Per qualsiasi domanda siamo a sua disposizione.',
    'Apri la fattura',
    'Cordiali saluti',
  ),
  language(
    'João Gonçalves',
    'A sua inscrição na reunião de sexta-feira',
    'Olá João,',
    'recebemos a sua inscrição na reunião de sexta-feira.|Começa às dez horas, na sala do terceiro andar.|Traga por favor o documento que lhe enviámos na semana passada.|Até lá, bom trabalho.',
    'Ver o programa',
    'Atenciosamente',
  ),
  language(
    'Anouk van ’t Hoff',
    'Uw fiets is klaar: u kunt hem ophalen',
    'Beste Anouk,',
    'uw fiets is gerepareerd en staat klaar in de winkel.|We hebben de ketting vervangen en de remmen afgesteld.|De winkel is open van dinsdag tot en met zaterdag.|Neem alstublieft het bonnetje mee.',
    'Openingstijden',
    'Met vriendelijke groet',
  ),
  language(
    'Åsa Sjöberg',
    'Påminnelse: lånade böcker åter på måndag',
    'Hej Åsa,',
    'de böcker som du har lånat ska lämnas åter på måndag.|Du kan förlänga lånet en gång om ingen annan väntar.|Biblioteket är stängt på söndag.|Tack för att du läser hos oss.',
    'Förläng lånet',
    'Vänliga hälsningar',
  ),
  language(
    'Łukasz Żółć',
    'Zgłoszenie przyjęte: odpowiemy w ciągu dwóch dni',
    'Dzień dobry,',
    'dziękujemy za zgłoszenie.|Nasz technik przyjedzie w środę między dziesiątą a dwunastą.|Prosimy przygotować numer urządzenia, który znajduje się na tylnej ściance.|W razie zmiany terminu prosimy o odpowiedź.',
    'Zobacz zgłoszenie',
    'Z poważaniem',
  ),
  language(
    'Jiří Dvořák',
    'Potvrzení: kurz češtiny začíná v úterý',
    'Dobrý den,',
    'potvrzujeme přihlášku do kurzu.|První hodina začíná v úterý v šest večer v budově školy.|Učebnici dostanete na místě.|Těšíme se na vás.',
    'Rozvrh kurzu',
    'S pozdravem',
  ),
  language(
    'Gülşen Yıldız',
    'Randevunuz perşembe günü saat on birde',
    'Merhaba Gülşen,',
    'randevunuz perşembe günü saat on birde.|Lütfen on dakika önce geliniz ve kimliğinizi yanınızda bulundurunuz.|Gelemeyecekseniz bu iletiyi yanıtlamanız yeterlidir.|İyi günler dileriz.',
    'Randevuyu değiştir',
    'Saygılarımızla',
  ),
  language(
    'Νίκος Παπαδόπουλος',
    'Η παραγγελία σας είναι έτοιμη',
    'Αγαπητέ Νίκο,',
    'η παραγγελία σας είναι έτοιμη και φεύγει αύριο το πρωί.|Θα τη λάβετε μέχρι την Παρασκευή.|Το τιμολόγιο βρίσκεται στον λογαριασμό σας.|Για οποιαδήποτε ερώτηση απαντήστε σε αυτό το μήνυμα.',
    'Δείτε την παραγγελία',
    'Με εκτίμηση',
  ),
  language(
    'Алексей Щукин',
    'Ваш заказ передан в службу доставки',
    'Здравствуйте, Алексей!',
    'Ваш заказ передан в службу доставки.|Курьер позвонит за час до приезда.|Счёт и гарантийный талон лежат в посылке.|Если время не подходит, просто ответьте на это письмо.',
    'Проверить заказ',
    'С уважением',
  ),
  language(
    'Ганна Ґудзь',
    'Запрошення на зустріч випускників у травні',
    'Шановна Ганно,',
    'запрошуємо вас на зустріч випускників.|Вона відбудеться в останню суботу травня в залі школи.|Повідомте, будь ласка, чи приїдете ви з родиною.|Щиро чекаємо на вас.',
    'Відповісти',
    'З повагою',
  ),
  language(
    'ليلى حداد',
    'تأكيد الحجز ليوم الخميس',
    'مرحبا ليلى،',
    'شكرا لحجزك معنا.|موعدك يوم الخميس في الساعة العاشرة صباحا.|يمكنك تغيير الموعد من صفحتك أو بالرد على هذه الرسالة.|نتطلع إلى رؤيتك.',
    'عرض الحجز',
    'مع التحية',
  ),
  language(
    'נועה כהן',
    'ההזמנה שלך יצאה לדרך',
    'שלום נועה,',
    'ההזמנה שלך יצאה הבוקר מהמחסן.|היא תגיע אליך עד יום שישי.|החשבונית נמצאת באזור האישי.|לכל שאלה אפשר להשיב להודעה הזאת.',
    'לפרטי ההזמנה',
    'בברכה',
  ),
  language(
    'अनिता शर्मा',
    'आपकी बैठक सोमवार को है',
    'नमस्ते अनिता,',
    'आपकी बैठक सोमवार को सुबह दस बजे है।|कृपया अपने कागज़ साथ लाएँ।|समय बदलने के लिए इस पत्र का उत्तर दें।|आपसे मिलकर हमें खुशी होगी।',
    'बैठक देखें',
    'सादर',
  ),
  language(
    '田中 美咲',
    'ご注文の商品を発送しました',
    '田中様',
    'いつもご利用いただきありがとうございます。|ご注文の商品を本日発送いたしました。|金曜日までにお届けする予定です。|ご不明な点がございましたら、このメールにご返信ください。',
    '注文を確認する',
    'よろしくお願いいたします',
  ),
  language(
    '王小明',
    '您的预约已确认:星期三上午九点',
    '王先生:',
    '您好,您的预约已经确认。|请于星期三上午九点到三楼接待处。|如需更改时间,请直接回复本邮件。|期待与您见面。',
    '查看预约',
    '此致',
  ),
  language(
    '김민준',
    '도서 대출 기한 안내',
    '김민준 님께,',
    '빌리신 책의 반납일은 월요일입니다.|기다리는 사람이 없으면 한 번 연장할 수 있습니다.|도서관은 일요일에 쉽니다.|언제나 이용해 주셔서 감사합니다.',
    '대출 연장',
    '감사합니다',
  ),
  language(
    'สมชาย ใจดี',
    'ยืนยันการจองห้องประชุมวันศุกร์',
    'เรียนคุณสมชาย',
    'เรายืนยันการจองห้องประชุมของคุณแล้ว|ห้องอยู่ชั้นสามและเปิดตั้งแต่เก้าโมงเช้า|หากต้องการเปลี่ยนเวลา โปรดตอบกลับอีเมลนี้|ขอบคุณที่ใช้บริการของเรา',
    'ดูการจอง',
    'ขอแสดงความนับถือ',
  ),
  language(
    'Nguyễn Thị Hạnh',
    'Lịch hẹn của bạn vào thứ năm',
    'Chào chị Hạnh,',
    'lịch hẹn của chị là chín giờ sáng thứ năm.|Xin vui lòng mang theo giấy tờ và đến sớm mười phút.|Nếu muốn đổi giờ, chị chỉ cần trả lời thư này.|Xin cảm ơn chị.',
    'Xem lịch hẹn',
    'Trân trọng',
  ),
]

const paragraph = (text: string): string => `<p>${escapeHtml(text)}</p>`

/** The text of a mail in a form; most are written by programs of the customers, some by a person. */
const FORMS: readonly ((text: Language, link: string) => string)[] = [
  // A person's: words alone.
  ({ end, greeting, sentences }) => [greeting, sentences.join(' '), end].map(paragraph).join(''),
  // A program's, a whole document.
  ({ button, end, greeting, sentences, subject }, link) => `<!doctype html>
<html><head><meta charset="utf-8"><title>${escapeHtml(subject)}</title>
<style>body{font-family:sans-serif}td{padding:4px 12px}</style></head>
<body>
${[greeting, ...sentences].map(paragraph).join('\n')}
<table><tr><td>4711</td><td>1</td><td>49.90</td></tr><tr><td>4712</td><td>2</td><td>18.00</td></tr></table>
<p><a href="${link}" style="${buttonStyle('#1d5bd8')}">${escapeHtml(button)}</a></p>
${paragraph(end)}
</body></html>
`,
  // All of it in one line, longer than a line of a mail may be (RFC 5322 §2.1.1).
  ({ end, greeting, sentences }) =>
    `<html><body><div>${escapeHtml([greeting, ...Array<string>(12).fill(sentences.join(' ')), end].join(' '))}</div></body></html>`,
  // A list and a quotation, as an editor writes them.
  ({ button, end, greeting, sentences }, link) =>
    `${paragraph(greeting)}<ul>${sentences.map((each) => `<li><p>${escapeHtml(each)}</p></li>`).join('')}</ul><blockquote>${paragraph(sentences[0]!)}</blockquote><p><a href="${link}">${escapeHtml(button)}</a></p>${paragraph(end)}`,
  // A word that is longer than a line may be.
  ({ end, greeting, sentences }) =>
    `${[greeting, ...sentences].map(paragraph).join('\n')}<pre>${'0123456789abcdef'.repeat(90)}</pre>${paragraph(end)}`,
]

/** An image of one pixel. */
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const base64 = (text: string): string => Buffer.from(text).toString('base64')
const pdf = (words: string): string =>
  base64(
    `%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]>>endobj\n% ${words}\ntrailer<</Root 1 0 R>>\n%%EOF\n`,
  )

/** Attachments of a mail, by its number. */
function attachments(n: number, { sentences, subject }: Language): Record<string, unknown>[] {
  const file = (filename: string, content_type: string, content: string, more = {}) => ({
    filename,
    content_type,
    content,
    ...more,
  })
  switch (n % 9) {
    case 1:
      return [file('invoice-4711.pdf', 'application/pdf', pdf(String(n)))]
    case 3:
      return [
        file(
          `${subject.replace(/[^\p{L}\p{M}\p{N} ]/gu, '')}.csv`,
          'text/csv',
          base64(`a;b\r\n${sentences.join(';')}\r\n`),
        ),
      ]
    case 5:
      return [
        file('picture.png', 'image/png', PNG, { content_id: 'logo' }),
        file('Rechnung für März.pdf', 'application/pdf', pdf(subject)),
      ]
    case 7:
      return [
        file('notes.txt', 'text/plain', base64(`${sentences.join('\n')}\n`)),
        file(
          'appointment.ics',
          'text/calendar',
          base64(
            `BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//shop//EN\r\nBEGIN:VEVENT\r\nUID:${n}@${FROM}\r\nDTSTAMP:20261126T080000Z\r\nDTSTART:20261127T080000Z\r\nSUMMARY:Visit\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n`,
          ),
        ),
      ]
    default:
      return []
  }
}

/** The API emails, each as its attributes. */
export function posts(): Record<string, unknown>[] {
  const random = seeded(103)
  const oneOf = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)]!
  return Array.from({ length: POSTED }, (_, n) => {
    const text = LANGUAGES[n % LANGUAGES.length]!
    const other = oneOf(LANGUAGES)
    const form = FORMS[Math.floor(n / LANGUAGES.length) % FORMS.length]!
    const files = attachments(n, text)
    const html = form(text, `${SITE}/orders/${n}`)
    const own = `${text.greeting}\n\n${text.sentences.join(' ')}\n\n${text.end}\n`
    const domain = n % 11 === 3 ? TRACKING : FROM
    const isReply = n % 4 === 0
    const root = `<q${n}@${oneOf(DOMAINS)}>`
    const ids = Array.from({ length: Math.floor(random() * 12) }, (_each, at) => `<r${n}.${at}@${oneOf(DOMAINS)}>`)
    return {
      from: oneOf(['', `"${other.person}" `, 'Example Shop ']) + `<orders@${domain}>`,
      to: `"${text.person}" <bob${n}@${oneOf(DOMAINS)}>`,
      subject: `${isReply ? 'Re: ' : ''}${text.subject}${n % 7 === 0 ? `: ${text.sentences.join(' ')}` : ''}`,
      html: files.some((each) => 'content_id' in each)
        ? html.replace(/(<\/body>|$)/, '<p><img src="cid:logo" alt="Logo" width="40" height="40"></p>$1')
        : html,
      // As programs give it: the same words as the form for a person has.
      ...(form === FORMS[0] && random() < 0.5 ? { text: own } : {}),
      ...(n % 5 === 0 ? { cc: [`"${other.person}" <eve${n}@${oneOf(DOMAINS)}>`] } : {}),
      ...(n % 6 === 0 ? { reply_to: [`support@${domain}`] } : {}),
      ...(files.length > 0 ? { attachments: files } : {}),
      ...(isReply ? { headers: { 'In-Reply-To': ids.at(-1) ?? root, References: [root, ...ids].join(' ') } } : {}),
    }
  })
}

export interface DiverseCampaign {
  attributes: Record<string, unknown>
  contacts: { email: string; name: string; custom_fields?: Record<string, string> }[]
}

/** Campaigns in each design and without one, tracked and not, with a text of their own and without. */
export function campaigns(): DiverseCampaign[] {
  return Array.from({ length: 12 }, (_, n) => {
    const text = LANGUAGES[(n * 5) % LANGUAGES.length]!
    const design = [...DESIGNS, ''] as const
    const look = {
      brand: 'Example Shop',
      logo: n % 2 === 0 ? '' : `${SITE}/logo.png`,
      colour: ['#1d5bd8', '#c2410c', '#166534'][n % 3]!,
      postal: 'Mill Lane 3\nExample Town',
    }
    const words = [
      `<h1>${escapeHtml(text.subject)}</h1><p>${escapeHtml(text.greeting)} {{name|friend}} ({{city|home}})</p>`,
      ...[...text.sentences, ...text.sentences].map(paragraph),
      `<p><img src="${SITE}/pictures/${n}.jpg" alt="${escapeHtml(text.subject)}" width="544" style="max-width:100%;height:auto"></p>`,
      `<p data-button=""><a href="${SITE}/news/${n}" style="${buttonStyle(look.colour)}">${escapeHtml(text.button)}</a></p><hr>`,
      paragraph(text.end),
    ]
    const own = [text.greeting, text.sentences.join(' '), text.end, '{{unsubscribe_url}}'].join('\n\n')
    return {
      attributes: {
        name: `Issue ${n}`,
        subject: n % 2 === 0 ? text.subject : `{{name|friend}}: ${text.subject}`,
        body_html: bodyOf({
          design: design[n % design.length]!,
          look,
          preview: text.sentences[0]!,
          text: words.join(''),
        }),
        ...(n % 6 === 5 ? { body_text: own } : {}),
        ...(n % 4 === 0 ? { reply_to: `support@${TRACKING}` } : {}),
        ...(n % 3 === 0 ? {} : { track_opens: false, track_clicks: false }),
      },
      contacts: Array.from({ length: READERS }, (_each, at) => ({
        email: `reader${n}.${at}@${DOMAINS[at % DOMAINS.length]}`,
        name: text.person,
        ...(at % 3 === 0 ? {} : { custom_fields: { city: at % 3 === 1 ? 'Ærøskøbing' : 'Bergen' } }),
      })),
    }
  })
}
