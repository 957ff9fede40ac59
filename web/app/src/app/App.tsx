import { QueryClientProvider } from '@tanstack/react-query';
import { ApiContext } from '../api/context';
import { Speaking } from '../ui/LanguageProvider';
import { Boundary } from './ErrorBoundary';
import { Gate } from './LoginGate';
import type { Services } from './services';

export function App({ services }: { readonly services: Services }) {
  return (
    <Speaking>
      <Boundary>
        <ApiContext value={services}>
          <QueryClientProvider client={services.queries}>
            <Gate services={services} />
          </QueryClientProvider>
        </ApiContext>
      </Boundary>
    </Speaking>
  );
}
