// DMARC and TLS aggregate reports as a part of the server.
import { part } from '../parts/part.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { aggregateReports } from './api.ts'
import { dmarcEvidences, dmarcSourceFigures, knownSources, tlsFigures } from './api-figures.ts'
import { reportPlaces, reportsPanel } from './page.ts'
import { reportReader } from './reading/readers.ts'
import { recordReport, type ReportMail } from './receipt.ts'
import { forgetReports, removeOldReports } from './retention.ts'

export const reportsPart = part<ApiDeps>('reports', {
  resources: [aggregateReports, dmarcSourceFigures, dmarcEvidences, tlsFigures, knownSources],
  pages: reportPlaces,
  domainPanel: { title: 'DMARC and TLS reports', show: reportsPanel },
  reports(deps) {
    const reader = reportReader()
    return {
      read: (content, times) => reader.read(content, times),
      received: (tx, report, now) => recordReport(tx, deps, report as ReportMail, now),
      close: () => reader.close(),
    }
  },
  async hourly(deps, now) {
    const { report_messages, reports } = deps.config.retention
    if (report_messages > 0) while ((await removeOldReports(deps, now - report_messages)) > 0);
    if (reports > 0) await forgetReports(deps.store, now - reports)
  },
})
