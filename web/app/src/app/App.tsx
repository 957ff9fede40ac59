import { QueryClientProvider } from '@tanstack/react-query';
import { ApiContext } from '../api/context';
import { LanguageProvider } from '../ui/LanguageProvider';
import { ErrorBoundary } from './ErrorBoundary';
import { LoginGate } from './LoginGate';
import type { Services } from './services';

export function App({ services }: { readonly services: Services }) {
  return (
    <LanguageProvider>
      <ErrorBoundary>
        <ApiContext value={services}>
          <QueryClientProvider client={services.queries}>
            <LoginGate services={services} />
          </QueryClientProvider>
        </ApiContext>
      </ErrorBoundary>
    </LanguageProvider>
  );
}
